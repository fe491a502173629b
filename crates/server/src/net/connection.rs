//! Connections: so many at once, each served until it ends or the server stops.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::Listener;
use super::alarm::Patience;
use super::listener::Stream;
use super::pace::{Busy, Limits, Paced};
use super::parser::{Requests, Shaped, UnderWay};
use crate::http::{App, Door, Gate};

/// Heads, and the pieces that bodies are read in.
const BUFFER_BYTES: usize = 64 * 1024;
/// When no connection can be accepted, because there are no more descriptors say, it is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection, as the gauge counts it; also when its task panics.
struct Counted(App);

impl Counted {
    fn new(app: &App) -> Self {
        app.meters.connections.increment(1.0);
        Self(app.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.meters.connections.decrement(1.0);
    }
}

/// The body of an answer: as long as it is being written, the next request is not waited for.
struct Answer {
    body: Body,
    busy: Busy,
    _under_way: UnderWay,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.busy.turn();
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Everybody who is connected.
#[derive(Clone)]
pub(crate) struct Connections {
    app: App,
    gate: Arc<Gate>,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Connections {
    pub(crate) fn new(app: App, gate: Gate) -> Self {
        let room = Arc::new(Semaphore::new(app.live().config.http.connections_max));
        Self { app, gate: Arc::new(gate), room, tasks: TaskTracker::new() }
    }

    /// Takes connections until the server stops. Those beyond the limit wait to be accepted.
    pub(crate) async fn accept(self, listener: Listener, stopping: CancellationToken) {
        loop {
            let accepted = async {
                let permit = self.room.clone().acquire_owned().await;
                (listener.accept().await, permit)
            };
            let (accepted, permit) = tokio::select! {
                () = stopping.cancelled() => return,
                accepted = accepted => accepted,
            };
            match (accepted, permit) {
                (Ok((stream, door)), Ok(permit)) => self.serve(stream, door, permit),
                (Ok(_), Err(_)) => return,
                (Err(error), _) => {
                    warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, stream: Box<dyn Stream>, door: Door, permit: OwnedSemaphorePermit) {
        let (app, gate) = (self.app.clone(), self.gate.clone());
        let settings = app.live().config.http.clone();
        let limits = Limits {
            idle: settings.idle_timeout,
            head: settings.header_timeout,
            write: settings.write_timeout,
        };
        self.tasks.spawn(async move {
            let _permit = permit;
            let _counted = Counted::new(&app);
            let (busy, patience, requests) = (Busy::default(), Patience::default(), Requests::default());
            let paced = Paced::new(stream, limits, busy.clone());
            let io = TokioIo::new(Shaped::new(paced, requests.clone(), |head| gate.refuse_head(head)));
            let service = service_fn(|request| {
                let (gate, busy, patience) = (&gate, &busy, &patience);
                let under_way = requests.begin();
                busy.turn();
                async move {
                    let response = gate.answer(request, door, patience).await;
                    Ok::<_, Infallible>(response.map(|body| Answer {
                        body,
                        busy: busy.clone(),
                        _under_way: under_way,
                    }))
                }
            });
            let mut http = http1::Builder::new();
            // Whoever is slow is cut by the stream: a time-out here would be set anew for every request.
            http.header_read_timeout(None).max_buf_size(BUFFER_BYTES);
            let mut connection = pin!(http.serve_connection(io, service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = app.stopping.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                debug!(%error, "a connection ended badly");
            }
        });
    }

    /// Waits until everybody has left, but not for ever.
    pub(crate) async fn drain(self, within: Duration) {
        self.tasks.close();
        if tokio::time::timeout(within, self.tasks.wait()).await.is_err() {
            warn!(connections = self.tasks.len(), "some connections did not end in time, and are cut");
        }
    }
}
