//! Drives the HTTP of one connection, and closes it when its client takes too long or somebody else needs its place.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Reason, Receiving, Request};
use super::alarm::Alarm;
use super::listener::Stream;
use super::parser::{Requests, Shaped, UnderWay};
use super::stream::Reporting;

/// Heads, and the pieces that bodies are read in.
const BUFFER_BYTES: usize = 64 * 1024;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The client closed it.
    Client,
    Error(hyper::Error),
    /// The server closed it.
    Closed(Reason),
    /// The server stops.
    Stopped,
}

/// Answers the requests of a connection until it ends. `refuse` makes the answer to a head that cannot be read of the one
/// that the HTTP layer would write by itself.
pub(super) async fn drive<A: Future<Output = Response>>(
    stream: Box<dyn Stream>,
    activity: &Arc<Activity>,
    stopping: &CancellationToken,
    answer: impl Fn(axum::extract::Request) -> A,
    refuse: impl Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
) -> Ended {
    let requests = Requests::default();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let begun = (activity.begin(), requests.begin());
        let answer = answer(request.map(|body| arriving(body, activity)));
        async move { Ok::<_, Infallible>(answer.await.map(|body| Answer { body, _request: begun })) }
    });
    let mut http = http1::Builder::new();
    // The activity's deadlines replace this one, which would be set anew for every request.
    http.header_read_timeout(None).max_buf_size(BUFFER_BYTES);
    let stream = Reporting::new(stream, Arc::clone(activity));
    let io = TokioIo::new(Shaped::new(stream, requests.clone(), refuse));
    let mut connection = pin!(http.serve_connection(io, service));
    let ended = tokio::select! {
        biased;
        ended = within_limits(connection.as_mut(), activity) => ended,
        now = closing(activity, stopping) => {
            if let Some(ended) = now {
                return ended;
            }
            connection.as_mut().graceful_shutdown();
            within_limits(connection, activity).await
        }
    };
    match ended {
        Ok(Ok(())) => Ended::Client,
        Ok(Err(error)) => Ended::Error(error),
        Err(overdue) => Ended::Closed(overdue),
    }
}

/// Drives a connection to its end, or until its client has taken too long. The deadline is read after every step of the
/// connection, so a timer is set whenever a client is waited for.
async fn within_limits<C: Future>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
) -> Result<C::Output, Reason> {
    let mut alarm = Alarm::default();
    poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(Ok(ended));
        }
        match activity.deadline() {
            Some((until, overdue)) => alarm.poll_until(cx, until).map(|()| Err(overdue)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Waits until the connection shall be closed. Says how it ended if no request is broken off by closing it at once.
async fn closing(activity: &Activity, stopping: &CancellationToken) -> Option<Ended> {
    tokio::select! {
        () = stopping.cancelled() => {}
        () = activity.unwanted().cancelled() => {}
    }
    let (head_begun, _) = activity.idle_rank()?;
    if activity.unwanted().is_cancelled() {
        return Some(Ended::Closed(Reason::Limit));
    }
    (!head_begun).then_some(Ended::Stopped)
}

/// The body of a request, which reports when it has arrived; most requests have none.
fn arriving(body: Incoming, activity: &Arc<Activity>) -> Body {
    if body.is_end_stream() {
        return Body::empty();
    }
    Body::new(Arriving { body, receiving: Some(activity.receive()) })
}

struct Arriving {
    body: Incoming,
    receiving: Option<Receiving>,
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let ended = match &polled {
            Poll::Ready(frame) => !matches!(frame, Some(Ok(_))) || self.body.is_end_stream(),
            // The HTTP layer does not know yet that the client has hung up.
            Poll::Pending if self.receiving.as_ref().is_some_and(|rest| rest.broke_off(cx.waker())) => {
                return Poll::Ready(Some(Err("the client hung up before the end of the body".into())));
            }
            Poll::Pending => false,
        };
        if ended {
            self.receiving = None;
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

/// The body of an answer: when it is dropped, the request is over.
struct Answer {
    body: Body,
    _request: (Request, UnderWay),
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

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
