//! Connections: each is served until it ends, its client takes too long, or the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::activity::{Activity, Limits};
use super::alarm::Patience;
use super::capacity::{Admitted, Capacity};
use super::drive::{Ended, drive};
use super::listener::{Listener, Stream};
use crate::http::{App, Caller, Door, Gate};
use crate::meters::Meters;

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

/// The connections of one kind of listener.
#[derive(Clone)]
pub(crate) struct Connections {
    app: App,
    gate: Arc<Gate>,
    capacity: Arc<Capacity>,
    tasks: TaskTracker,
}

impl Connections {
    pub(crate) fn new(app: App, gate: Gate, capacity: Arc<Capacity>) -> Self {
        Self { app, gate: Arc::new(gate), capacity, tasks: TaskTracker::new() }
    }

    /// Accepts connections until the server stops.
    pub(crate) async fn accept(self, listener: Listener, stopping: CancellationToken) {
        let mut failing = false;
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((stream, door)) => {
                        if std::mem::take(&mut failing) {
                            info!(address = %listener, "connections are accepted again");
                        }
                        self.admit(stream, door).await;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failing, true) {
                            warn!(%error, address = %listener, "no connection can be accepted; idle ones are closed");
                        }
                        // There may be no descriptor left: an idle connection has one.
                        self.capacity.close_idle();
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        stopping.run_until_cancelled(accepting).await;
    }

    async fn admit(&self, stream: Box<dyn Stream>, door: Door) {
        let http = &self.app.live().config.http;
        let limits = Limits { idle: http.idle_timeout, head: http.header_timeout, write: http.write_timeout };
        let activity = Activity::new(limits);
        let admitted = self.capacity.admit(&activity).await;
        let connection = Connection { app: self.app.clone(), gate: self.gate.clone(), activity, admitted };
        self.tasks.spawn(connection.serve(stream, door));
    }

    /// Waits until every connection has ended, but not for ever.
    pub(crate) async fn drain(self, within: Duration) {
        self.tasks.close();
        if tokio::time::timeout(within, self.tasks.wait()).await.is_err() {
            warn!(connections = self.tasks.len(), "some connections did not end in time, and are cut");
        }
    }
}

/// One connection.
struct Connection {
    app: App,
    gate: Arc<Gate>,
    activity: Arc<Activity>,
    admitted: Admitted,
}

impl Connection {
    async fn serve(self, stream: Box<dyn Stream>, door: Door) {
        let Self { app, gate, activity, admitted: _admitted } = self;
        let _counted = Counted::new(&app);
        let caller = Caller { door, patience: Patience::default(), hung_up: activity.hung_up().clone() };
        let answer = |request| gate.answer(request, &caller);
        match drive(stream, &activity, &app.stopping, answer, |head| gate.refuse_head(head)).await {
            Ended::Client | Ended::Stopped => {}
            Ended::Error(error) => debug!(%error, "a connection ended with an error"),
            Ended::Closed(reason) => {
                Meters::connection_closed(reason.label());
                debug!(reason = reason.as_str(), "a connection was closed");
            }
        }
    }
}
