//! Callers that run lifecycles against one side; each waits for the response before its next call.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::NewMessage;
use oncebox_system::uptime;
use tokio::runtime::{Builder, Runtime};

use crate::messages::Messages;

/// One of the two systems that are compared.
pub(crate) trait Side: Send + Sync + 'static {
    /// Takes messages through accept, claim and ack.
    fn lifecycle(
        &self,
        caller: usize,
        messages: &[NewMessage],
    ) -> impl Future<Output = LifecycleTimes> + Send;
}

/// The result of one lifecycle of one caller.
#[derive(Default, Clone, Copy)]
pub(crate) struct LifecycleTimes {
    /// How long accept took.
    pub(crate) accept: Duration,
    /// How long the claiming call took, including anything else that it did.
    pub(crate) claim: Duration,
    /// Messages that were claimed.
    pub(crate) messages: usize,
}

/// The number of callers and what they send.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) callers: usize,
    /// Messages per call.
    pub(crate) batch: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) style: Style,
}

/// How callers of our side run a lifecycle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Accept, claim, ack: one call each.
    ThreeCalls,
    /// Like a busy worker: accept, then one call that acks the previous deliveries and claims the next ones.
    TwoCalls,
}

/// The result of one run.
pub(crate) struct Run {
    pub(crate) per_second: f64,
    pub(crate) lifecycles: f64,
    /// How long each accept took.
    pub(crate) accepts: Vec<Duration>,
    /// How long each claim took.
    pub(crate) claims: Vec<Duration>,
}

/// The runtime that all sides share, and how long one run takes.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) seconds: f64,
}

impl Bench {
    pub(crate) fn new(seconds: f64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { runtime: runtime.expect("threads can be started"), seconds }
    }

    /// Runs for the configured time, or until `lifecycles_max` lifecycles are done. Messages are generated before and
    /// dropped after the measured time.
    fn run_up_to<S: Side>(
        &self,
        side: &Arc<S>,
        load: Load,
        source: &mut Messages,
        lifecycles_max: usize,
    ) -> Run {
        let calls = lifecycles_max.div_ceil(load.callers * load.batch);
        let callers: Vec<Vec<Vec<NewMessage>>> =
            (0..load.callers).map(|_| (0..calls).map(|_| source.take(load.batch)).collect()).collect();
        let start = uptime();
        let end = start + Duration::from_secs_f64(self.seconds);
        let spawn = |(caller, work)| self.runtime.spawn(one_caller(Arc::clone(side), caller, work, end));
        let tasks: Vec<_> = callers.into_iter().enumerate().map(spawn).collect();
        let results: Vec<_> = self.runtime.block_on(async {
            let mut results = Vec::new();
            for task in tasks {
                results.push(task.await.expect("a caller does not panic"));
            }
            results
        });
        let elapsed = uptime().saturating_sub(start).as_secs_f64();
        let took: Vec<LifecycleTimes> = results.into_iter().flat_map(|(took, _messages)| took).collect();
        let messages: usize = took.iter().map(|took| took.messages).sum();
        let lifecycles = f64::from(u32::try_from(messages).expect("a run is short"));
        let accepts = took.iter().map(|took| took.accept).collect();
        let claims = took.iter().map(|took| took.claim).collect();
        Run { per_second: lifecycles / elapsed, lifecycles, accepts, claims }
    }

    /// Runs for the configured time; `expected` is the highest rate of this side so far and is updated.
    pub(crate) fn run<S: Side>(
        &self,
        side: &Arc<S>,
        load: Load,
        source: &mut Messages,
        expected: &mut f64,
    ) -> Run {
        let run = self.run_up_to(side, load, source, whole(*expected * self.seconds * 1.5));
        *expected = expected.max(run.per_second);
        run
    }

    /// Estimates the lifecycles per second of this side with short runs.
    pub(crate) fn calibrate<S: Side>(&self, side: &Arc<S>, load: Load, source: &mut Messages) -> f64 {
        let mut lifecycles_max = load.callers * load.batch * 20;
        let mut expected = 0.0_f64;
        for share in [0.25, 1.0] {
            expected = expected.max(self.run_up_to(side, load, source, lifecycles_max).per_second);
            lifecycles_max = whole(expected * self.seconds * share);
        }
        expected
    }
}

async fn one_caller<S: Side>(
    side: Arc<S>,
    caller: usize,
    work: Vec<Vec<NewMessage>>,
    end: Duration,
) -> (Vec<LifecycleTimes>, Vec<Vec<NewMessage>>) {
    let mut took = Vec::with_capacity(work.len());
    for messages in &work {
        if uptime() >= end {
            break;
        }
        took.push(side.lifecycle(caller, messages).await);
    }
    (took, work)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive count, far below 2^53"
)]
fn whole(count: f64) -> usize {
    count as usize
}

/// The given percentile in microseconds.
pub(crate) fn micros(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
}
