//! Wake-ups when a topic is resumed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::{Namespace, Wakeups};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Pauses, Snapshot};

/// How often a waiting worker checks whether a paused topic was resumed by another process.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Wakes for messages, and when the paused topics of the namespace change.
pub(super) struct PausingWakeups {
    inner: Box<dyn Wakeups>,
    pauses: Arc<Pauses>,
    namespace: Namespace,
    snapshot: watch::Receiver<Snapshot>,
    /// When to check next. A worker that is woken for something else before does not delay it.
    next_check: Instant,
}

impl PausingWakeups {
    pub(super) fn new(
        inner: Box<dyn Wakeups>,
        pauses: Arc<Pauses>,
        namespace: Namespace,
        snapshot: watch::Receiver<Snapshot>,
    ) -> Self {
        let next_check = Instant::now() + RECHECK_INTERVAL;
        Self { inner, pauses, namespace, snapshot, next_check }
    }
}

#[async_trait]
impl Wakeups for PausingWakeups {
    async fn wait(&mut self) {
        loop {
            let some_kept_back = !self.snapshot.borrow().topics.all_delivered();
            tokio::select! {
                biased;
                () = self.inner.wait() => return,
                _ = self.snapshot.changed() => return,
                () = sleep_until(self.next_check), if some_kept_back => {
                    self.next_check = Instant::now() + RECHECK_INTERVAL;
                    // A failure shows in the next claim.
                    drop(self.pauses.current(self.namespace).await);
                }
            }
        }
    }
}
