//! Connections: each is served until it ends, its client exceeds a timeout, or the server stops.

use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::activity::Activity;
use super::connection_limit::{ConnectionLimit, ConnectionSlot};
use super::drive::{Ended, drive};
use super::lazy_timer::ReusableTimeout;
use super::listener::{Listener, Peer, Stream, Transport};
use super::service::{Caller, Service};
use super::tls_stream::ServerTlsStream;
use crate::server_metrics::ServerMetrics;

/// Pause before retrying when no connection can be accepted, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Counts an open connection in the gauge, also if its task panics.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The connections of one kind of listener.
pub(crate) struct Connections<S> {
    service: Arc<S>,
    limit: Arc<ConnectionLimit>,
    /// The number of open connections.
    gauge: Gauge,
    /// Cancelled when the server is about to stop.
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl<S> Clone for Connections<S> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            limit: self.limit.clone(),
            gauge: self.gauge.clone(),
            stopping: self.stopping.clone(),
            tasks: self.tasks.clone(),
        }
    }
}

impl<S: Service> Connections<S> {
    pub(crate) fn new(
        service: S,
        limit: Arc<ConnectionLimit>,
        gauge: Gauge,
        stopping: CancellationToken,
    ) -> Self {
        Self { service: Arc::new(service), limit, gauge, stopping, tasks: TaskTracker::new() }
    }

    /// Accepts connections until the server stops.
    pub(crate) async fn accept(self, listener: Listener) {
        let mut failing = false;
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        if std::mem::take(&mut failing) {
                            info!(address = %listener, "accepting connections again");
                        }
                        self.admit(stream, peer).await;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failing, true) {
                            warn!(%error, address = %listener, "cannot accept connections, closing idle ones");
                        }
                        // The process may be out of file descriptors: closing an idle connection frees one.
                        self.limit.close_idle();
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        self.stopping.run_until_cancelled(accepting).await;
    }

    async fn admit(&self, stream: Box<dyn Stream>, peer: Peer) {
        let activity = Activity::new(self.service.timeouts(), &self.stopping);
        let slot = self.limit.admit(&activity).await;
        let connection = Connection {
            service: self.service.clone(),
            stopping: self.stopping.clone(),
            gauge: self.gauge.clone(),
            activity,
            slot,
        };
        self.tasks.spawn(connection.serve(stream, peer));
    }

    /// Waits until every connection has ended, at most for `within`.
    pub(crate) async fn drain(self, within: Duration) {
        self.tasks.close();
        if tokio::time::timeout(within, self.tasks.wait()).await.is_err() {
            warn!(connections = self.tasks.len(), "connections did not end in time and are dropped");
        }
    }
}

/// One connection.
struct Connection<S> {
    service: Arc<S>,
    stopping: CancellationToken,
    gauge: Gauge,
    activity: Arc<Activity>,
    slot: ConnectionSlot,
}

impl<S: Service> Connection<S> {
    async fn serve(self, stream: Box<dyn Stream>, peer: Peer) {
        let Self { service, stopping, gauge, activity, slot: _slot } = self;
        let _open = OpenConnection::new(gauge);
        let tls = if peer.transport == Transport::Tcp { service.tls() } else { None };
        let stream = match tls {
            Some(config) => Box::new(ServerTlsStream::new(stream, config)) as Box<dyn Stream>,
            None => stream,
        };
        let caller = Caller { peer, timeout: ReusableTimeout::default(), gone: activity.gone().clone() };
        let respond = |request| service.respond(request, &caller);
        match drive(stream, &activity, &stopping, respond, |head| service.reject_head(head)).await {
            Ended::Client | Ended::Stopped => {}
            Ended::Error(error) => debug!(%error, "connection closed with error"),
            Ended::Closed(reason) => {
                ServerMetrics::connection_closed(reason.label());
                debug!(reason = reason.as_str(), "connection closed by the server");
            }
        }
    }
}
