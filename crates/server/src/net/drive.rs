//! Drives the HTTP protocol of one connection, and closes it when its client exceeds a timeout or a new connection
//! needs the slot.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, BodyGuard, CloseReason, RequestGuard};
use super::activity_stream::ActivityStream;
use super::lazy_timer::LazyTimer;
use super::listener::Stream;
use super::parse_errors::{InProgress, ParseErrorRewriter, RequestCounter};

/// Buffer for request heads, and for chunks of bodies.
const BUFFER_BYTES: usize = 64 * 1024;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The client closed it.
    Client,
    Error(hyper::Error),
    /// The server closed it.
    Closed(CloseReason),
    /// The server stops.
    Stopped,
}

/// Serves the requests of a connection until it ends. `reject` turns the response that the HTTP layer writes to a
/// malformed head into one of ours.
pub(super) async fn drive<A, B>(
    stream: Box<dyn Stream>,
    activity: &Arc<Activity>,
    stopping: &CancellationToken,
    respond: impl Fn(Request<RequestBody>) -> A,
    reject: impl Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
) -> Ended
where
    A: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static,
{
    let requests = RequestCounter::default();
    let service = service_fn(|request: Request<Incoming>| {
        let begun = (activity.begin(), requests.begin());
        let response = respond(request.map(|body| RequestBody::new(body, activity)));
        async move { Ok::<_, Infallible>(response.await.map(|body| ResponseBody { body, _request: begun })) }
    });
    let mut http = http1::Builder::new();
    // The deadlines of the activity replace this timeout, which would be set again for every request.
    http.header_read_timeout(None).max_buf_size(BUFFER_BYTES);
    let stream = ActivityStream::new(stream, Arc::clone(activity));
    let io = TokioIo::new(ParseErrorRewriter::new(stream, requests.clone(), reject));
    let mut connection = pin!(http.serve_connection(io, service));
    let ended = tokio::select! {
        biased;
        ended = until_timeout(connection.as_mut(), activity) => ended,
        now = close_requested(activity, stopping) => {
            if let Some(ended) = now {
                return ended;
            }
            connection.as_mut().graceful_shutdown();
            until_timeout(connection, activity).await
        }
    };
    match ended {
        Ok(Ok(())) => Ended::Client,
        Ok(Err(error)) => Ended::Error(error),
        Err(overdue) => Ended::Closed(overdue),
    }
}

/// Drives a connection until it ends or its client exceeds a timeout. The deadline is read after every poll of the
/// connection, so a timer is set whenever the server waits for the client.
async fn until_timeout<C: Future>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
) -> Result<C::Output, CloseReason> {
    let mut timer = LazyTimer::default();
    poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(Ok(ended));
        }
        match activity.deadline() {
            Some((until, overdue)) => timer.poll_until(cx, until).map(|()| Err(overdue)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Waits until the connection is to be closed. Returns how it ended if closing it at once interrupts no request.
async fn close_requested(activity: &Activity, stopping: &CancellationToken) -> Option<Ended> {
    tokio::select! {
        () = stopping.cancelled() => {}
        () = activity.close_requested().cancelled() => {}
    }
    let (head_begun, _) = activity.idle_rank()?;
    if activity.close_requested().is_cancelled() {
        return Some(Ended::Closed(CloseReason::Limit));
    }
    (!head_begun).then_some(Ended::Stopped)
}

/// The body of a request, which reports its end.
pub(crate) struct RequestBody {
    body: Incoming,
    /// Until the end of the body.
    guard: Option<BodyGuard>,
}

impl RequestBody {
    /// Most requests have no body.
    fn new(body: Incoming, activity: &Arc<Activity>) -> Self {
        let guard = (!body.is_end_stream()).then(|| activity.begin_body());
        Self { body, guard }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let ended = match &polled {
            Poll::Ready(frame) => !matches!(frame, Some(Ok(_))) || self.body.is_end_stream(),
            // The HTTP layer has not seen the end of the stream yet.
            Poll::Pending if self.guard.as_ref().is_some_and(|rest| rest.aborted(cx.waker())) => {
                return Poll::Ready(Some(Err(
                    "the client closed the connection before the end of the body".into()
                )));
            }
            Poll::Pending => false,
        };
        if ended {
            self.guard = None;
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response; dropping it ends the request.
struct ResponseBody<B> {
    body: B,
    _request: (RequestGuard, InProgress),
}

impl<B: Body<Data = Bytes> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
