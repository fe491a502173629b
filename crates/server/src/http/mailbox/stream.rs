//! Receiving as a stream: one envelope per line, as they come.

use std::io;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use oncebox::Kind;
use oncebox::mailbox::{Receive, Received};
use oncebox_wire::mailbox::Recv;
use tokio::time::Instant;

use super::super::app::App;
use super::super::body;
use super::super::gate::HungUp;
use super::super::openapi::Refusals;
use super::super::refusal::Refusal;
use super::receive::PIECE;
use super::{TAG, convert, outgoing, receive};

/// Pieces of the answer that wait to be written, at most: what is given out ahead of a slow reader is little.
const PIECES_MAX: usize = 1;

/// Gives messages out as a stream, one JSON object per line. It goes on until nothing came for `wait_ms`, or the receiver
/// leaves. Deliveries are settled by the other calls.
#[utoipa::path(
    post,
    path = "/v1/recv/stream",
    tag = TAG,
    request_body = oncebox_wire::schema::RecvStream,
    responses((status = 200, description = "Envelopes, one per line; a message that is not what was sent is a line with `code`: `E_INTEGRITY`, its `msg_id` and `corr_id`.", body = String, content_type = "application/x-ndjson"), Refusals),
)]
pub(super) async fn recv_stream(
    State(app): State<App>,
    Extension(HungUp(hung_up)): Extension<HungUp>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let (recv, _room): (Recv, _) = body::read_json(&app, &parts.headers, content, app.live().one()).await?;
    if recv.request_id.is_some() {
        return Err(Refusal::schema("a stream cannot be repeated: leave request_id out"));
    }
    let wait = app.wait(recv.wait_ms)?;
    let wish = receive::wish(&app, &recv)?;
    // What is wrong with the wish is told before the stream begins.
    let first = app.live().mailbox.receive(wish.clone()).await.map_err(convert::refused)?;
    let (sender, channel) = Channel::<Bytes, io::Error>::new(PIECES_MAX);
    let left = hung_up.child_token();
    let guard = left.clone().drop_guard();
    tokio::spawn(left.run_until_cancelled_owned(give(app, recv.topic, wish, wait, first, sender)));
    // The body is dropped when the receiver leaves, and a receiver that hangs up may have left: then nothing more is taken
    // for nobody.
    let body = channel.map_frame(move |frame| {
        let _ = &guard;
        frame
    });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

/// Gives out until nothing came for a while.
async fn give(
    app: App,
    topic: String,
    wish: Receive,
    wait: Duration,
    first: Received,
    mut sender: Sender<Bytes, io::Error>,
) {
    let mut received = first;
    let mut until = Instant::now() + wait;
    loop {
        if !received.is_nothing() {
            receive::delivered(&app, &topic, &received.envelopes);
            let Ok(piece) = outgoing::lines(&std::mem::take(&mut received)) else { return };
            if sender.send_data(piece.into()).await.is_err() {
                return;
            }
            until = Instant::now() + wait;
        }
        if app.stopping.is_cancelled() {
            return;
        }
        let left = until.saturating_duration_since(Instant::now());
        received = match app.live().mailbox.receive(wish.clone().wait(left.min(PIECE))).await {
            Ok(received) if received.is_nothing() && left.is_zero() => return,
            Ok(received) => received,
            // There will be room again when somebody acknowledges.
            Err(error) if error.kind() == Kind::Saturated && !left.is_zero() => {
                tokio::time::sleep(left.min(PIECE)).await;
                Received::default()
            }
            Err(error) => {
                tracing::warn!(%error, "a stream ended early");
                return sender.abort(io::Error::other("the stream ended early"));
            }
        };
    }
}
