//! Callers that send lifecycles through a side, each waiting for its answer before its next call.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::NewMessage;
use oncebox_system::uptime;
use tokio::runtime::{Builder, Runtime};

use crate::messages::Messages;

/// One of those that are compared.
pub(crate) trait Side: Send + Sync + 'static {
    /// Takes messages through accept, claim and ack.
    fn lifecycle(&self, caller: usize, messages: &[NewMessage]) -> impl Future<Output = Took> + Send;
}

/// What one caller's lifecycle showed.
#[derive(Default, Clone, Copy)]
pub(crate) struct Took {
    /// How long accept took.
    pub(crate) accept: Duration,
    /// How long the call that claims took, whatever else it did.
    pub(crate) claim: Duration,
    /// Messages that were claimed.
    pub(crate) messages: usize,
}

/// Who calls with what.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) callers: usize,
    /// Messages per call.
    pub(crate) batch: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) style: Style,
}

/// How our side's callers go about a lifecycle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Accept, claim, ack: one call each.
    ThreeCalls,
    /// As a busy worker does: accept, then one call that acks what was claimed before and claims the next.
    TwoCalls,
}

/// What one run showed.
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

    /// Runs for the wanted time, or until so many lifecycles are done. The messages are made before and dropped after the
    /// measured time.
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
        let ended: Vec<_> = self.runtime.block_on(async {
            let mut ended = Vec::new();
            for task in tasks {
                ended.push(task.await.expect("a caller does not panic"));
            }
            ended
        });
        let elapsed = uptime().saturating_sub(start).as_secs_f64();
        let took: Vec<Took> = ended.into_iter().flat_map(|(took, _messages)| took).collect();
        let messages: usize = took.iter().map(|took| took.messages).sum();
        let lifecycles = f64::from(u32::try_from(messages).expect("a run is short"));
        let accepts = took.iter().map(|took| took.accept).collect();
        let claims = took.iter().map(|took| took.claim).collect();
        Run { per_second: lifecycles / elapsed, lifecycles, accepts, claims }
    }

    /// Runs for the wanted time; `expected` is what this side did per second before, and is kept up to date.
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

    /// How many lifecycles a second this side does, found by short runs.
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
) -> (Vec<Took>, Vec<Vec<NewMessage>>) {
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

/// Microseconds that so many percent stay within.
pub(crate) fn micros(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
}
