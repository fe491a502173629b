//! The operator of a simulation. It pauses and resumes topics until the faults end, and then resumes all of them.

use std::sync::Arc;
use std::time::Duration;

use oncebox::Oncebox;
use oncebox::operator::{Operator, Pause};
use tokio::time::{sleep, timeout};

use crate::random::RandomStream;
use crate::sender::TOPICS;
use crate::world::World;

/// A change without an answer is given up after this time.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The node that the operator works from.
pub(crate) const NODE: u64 = 1_000;

pub(crate) struct PausingOperator {
    world: Arc<World>,
    operator: Operator,
    random: RandomStream,
}

impl PausingOperator {
    pub(crate) fn new(world: Arc<World>, oncebox: &Oncebox) -> Self {
        let random = RandomStream::new(world.seed, "operator");
        Self { world, operator: oncebox.operator("operator"), random }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let pause = self.random.millis(100, 6_000);
            tokio::select! {
                biased;
                () = self.world.until_faults_end() => break,
                () = sleep(pause) => {}
            }
            self.change().await;
        }
        for topic in TOPICS {
            let left =
                self.operator.resume(topic, Pause::Both).await.expect("nothing fails after the faults");
            assert_eq!(left, None, "nothing else pauses {topic}");
        }
    }

    /// Pauses or resumes a part of a topic. The call may fail: what it changed is in the journal.
    async fn change(&mut self) {
        let topic = self.random.pick(&TOPICS);
        let part = self.random.pick(&[Pause::Sending, Pause::Receiving, Pause::Both]);
        if self.random.percent(60) {
            _ = timeout(CALL_TIMEOUT, self.operator.pause(topic, part)).await;
        } else {
            _ = timeout(CALL_TIMEOUT, self.operator.resume(topic, part)).await;
        }
    }
}
