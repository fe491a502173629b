//! Receiving as a stream: one envelope per line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use oncebox::ErrorKind;
use oncebox::mailbox::{Receive, Received};
use oncebox_wire::mailbox::RecvRequest;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::super::api_error::ApiError;
use super::super::app::App;
use super::super::call::Call;
use super::super::openapi::BodyErrors;
use super::super::response::{self, Response};
use super::{TAG, convert, receive, write_json};
use crate::access::Grant;

/// Maximum number of chunks that wait to be written, so that few messages are delivered ahead of a slow reader.
const CHUNKS_MAX: usize = 1;

/// Pause while too many messages are in flight.
const SATURATED_PAUSE: Duration = Duration::from_secs(1);

/// Receives messages as a stream, one JSON object per line.
///
/// The stream ends when no message arrived for `wait_ms`, or when the receiver disconnects. Deliveries are settled with
/// the other endpoints.
#[utoipa::path(
    post,
    path = "/v1/recv/stream",
    tag = TAG,
    request_body = oncebox_wire::schema::RecvStreamRequest,
    responses((status = 200, description = "Envelopes, one per line. A damaged message is a line with `code`: `E_INTEGRITY`, its `msg_id` and `corr_id`.", body = String, content_type = "application/x-ndjson"), BodyErrors),
)]
pub(in crate::http) async fn recv_stream(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (recv, _permit): (RecvRequest, _) = call.read_json().await?;
    let Call { app, active, .. } = call;
    if recv.request_id.is_some() {
        return Err(ApiError::schema("a stream cannot be repeated: omit request_id"));
    }
    let wait = active.wait(recv.wait_ms)?;
    call.check_topic(Some(&recv.topic))?;
    call.count(0)?;
    let delegates = receive::delegating(&call, &recv)?.is_some();
    let options = receive::receive_options(&call, &recv)?;
    // Errors of the request must be reported before the stream begins.
    let first = active.mailbox.receive(options.clone()).await.map_err(convert::api_error)?;
    let (sender, channel) = Channel::<Bytes, io::Error>::new(CHUNKS_MAX);
    let gone = call.gone.child_token();
    let guard = gone.clone().drop_guard();
    let options = options.cancelled_by(gone.clone());
    let grant = call.access.limits().cloned();
    if let Some(grant) = grant.clone() {
        tokio::spawn(end_with_token(app.clone(), grant, gone.clone()));
    }
    let stream = MessageStream { app: app.clone(), topic: recv.topic, options, wait, gone, grant, delegates };
    tokio::spawn(stream.deliver(first, sender));
    // The body is dropped when the receiver disconnects, and a receiver that closes its sending side may have
    // disconnected: then no more messages are received.
    let body = channel.map_frame(move |frame| {
        let _ = &guard;
        frame
    });
    Ok(response::stream(body.boxed_unsync(), "application/x-ndjson"))
}

/// Ends the stream when its token ends.
async fn end_with_token(app: App, grant: Arc<Grant>, gone: CancellationToken) {
    if let Some(control) = &app.access {
        let age_max = app.active().config.auth.cap_cache_ttl;
        let ends = control.until_end(&grant, age_max, || app.now_seconds(), |key| app.accepts_key(key));
        if gone.run_until_cancelled(ends).await.is_some() {
            gone.cancel();
        }
    }
}

/// A stream of messages.
struct MessageStream {
    app: App,
    topic: String,
    options: Receive,
    wait: Duration,
    /// Cancelled when nothing more is to be received.
    gone: CancellationToken,
    grant: Option<Arc<Grant>>,
    /// Whether each message gets a token for its delivery.
    delegates: bool,
}

impl MessageStream {
    /// Delivers messages until none arrived for `wait`.
    async fn deliver(self, first: Received, mut sender: Sender<Bytes, io::Error>) {
        let mut received = first;
        let mut until = Instant::now() + self.wait;
        loop {
            if !received.is_empty() {
                receive::record_delivered(&self.app, &self.topic, &received.envelopes);
                let count = received.envelopes.len();
                let delegating = self.grant.as_deref().filter(|_| self.delegates);
                let lines = write_json::lines(&std::mem::take(&mut received), delegating);
                let Ok(chunk) = lines else { return };
                if sender.send_data(chunk.into()).await.is_err() {
                    return;
                }
                self.keep_to_rate(count).await;
                until = Instant::now() + self.wait;
            }
            if self.gone.is_cancelled() {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            received = match self.app.active().mailbox.receive(self.options.clone().wait(left)).await {
                Ok(received) if received.is_empty() && Instant::now() >= until => return,
                Ok(received) => received,
                // Messages can be delivered again once others are acknowledged.
                Err(error) if error.kind() == ErrorKind::Saturated && !left.is_zero() => {
                    let pause_end = until.min(Instant::now() + SATURATED_PAUSE);
                    self.gone.run_until_cancelled(sleep_until(pause_end)).await;
                    Received::default()
                }
                Err(error) => {
                    tracing::warn!(%error, "receive stream ended with error");
                    return sender.abort(io::Error::other("the stream ended with an error"));
                }
            };
        }
    }

    /// Counts messages, and waits until the token allows more.
    async fn keep_to_rate(&self, messages: usize) {
        let (Some(control), Some(grant)) = (&self.app.access, &self.grant) else { return };
        control.received(grant, messages);
        while let Some(wait) = control.must_wait(grant) {
            if self.gone.run_until_cancelled(sleep(wait)).await.is_none() {
                return;
            }
        }
    }
}
