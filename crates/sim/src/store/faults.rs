//! The faults of the network, drawn from the seed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::random::RandomStream;

/// The call rate is recorded at every multiple of this many calls of one kind in a second.
const CALL_RATE_STEP: u64 = 50;
/// A node with this many calls in a second waits a second: otherwise virtual time might never advance.
const CALLS_PER_SECOND_MAX: u64 = 1_000;
/// The fault kind of a dropped wake-up.
pub(super) const LOST_WAKEUP: &str = "lost wake-up";

/// The fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// The store is unreachable for some time.
    Unreachable,
    /// The request is lost.
    LostRequest,
    /// The answer is lost.
    LostAnswer,
    SlowRequest(Duration),
    SlowAnswer(Duration),
    /// The call is carried out and never answered.
    Hang,
    /// The call fails, but is carried out later.
    Late(Duration),
}

impl Fault {
    pub(super) fn kind(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Unreachable => Some("unreachable"),
            Self::LostRequest => Some("lost request"),
            Self::LostAnswer => Some("lost answer"),
            Self::SlowRequest(_) => Some("slow request"),
            Self::SlowAnswer(_) => Some("slow answer"),
            Self::Hang => Some("hang"),
            Self::Late(_) => Some("late"),
        }
    }
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallInfo {
    pub(super) node: u64,
    pub(super) call: &'static str,
    pub(super) now_ms: u64,
}

/// The faults of the network, shared by all nodes.
pub(crate) struct Faults(Mutex<FaultState>);

struct FaultState {
    random: RandomStream,
    stopped: bool,
    /// Percentage of calls with a fault.
    percent: u64,
    lost_wakeup_percent: u64,
    /// Maximum latency each way, without a fault.
    latency_ms: u64,
    unreachable_until: Option<Instant>,
    /// By node and call: the current second, and the number of calls in it.
    calls: BTreeMap<(u64, &'static str), (u64, u64)>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = RandomStream::new(seed, "faults");
        let percent = random.pick(&[2, 5, 10, 20]);
        let lost_wakeup_percent = random.pick(&[0, 10, 60]);
        let latency_ms = random.pick(&[0, 2, 20]);
        let (unreachable_until, calls) = (None, BTreeMap::new());
        Self(Mutex::new(FaultState {
            random,
            stopped: false,
            percent,
            lost_wakeup_percent,
            latency_ms,
            unreachable_until,
            calls,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all faults.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
    }

    /// Makes the store unreachable for this time.
    pub(crate) fn make_unreachable(&self, length: Duration) {
        self.lock().unreachable_until = Some(Instant::now() + length);
    }

    pub(super) fn latency(&self) -> (Duration, Duration) {
        let mut state = self.lock();
        let max = state.latency_ms;
        (state.random.millis(0, max), state.random.millis(0, max))
    }

    pub(super) fn drops_wakeup(&self) -> bool {
        let mut state = self.lock();
        let percent = state.lost_wakeup_percent;
        !state.stopped && state.random.percent(percent)
    }

    pub(super) fn draw(&self, info: CallInfo) -> Fault {
        let mut state = self.lock();
        let percent = state.percent;
        if state.stopped {
            return Fault::None;
        }
        if state.unreachable_until.is_some_and(|until| Instant::now() < until) {
            return Fault::Unreachable;
        }
        if !state.random.percent(percent) {
            return Fault::None;
        }
        let delay = state.random.millis(1, 4_000);
        let kinds = [
            Fault::LostRequest,
            Fault::LostAnswer,
            Fault::LostAnswer,
            Fault::SlowRequest(delay),
            Fault::SlowAnswer(delay),
            Fault::Hang,
            Fault::Late(delay),
        ];
        match info.call {
            "work" | "extend" | "accept" => state.random.pick(&kinds),
            _ => state.random.pick(&kinds[..6]),
        }
    }

    /// Counts a call. Returns the number of such calls in the current second if it is to be recorded, and how long to
    /// wait.
    pub(super) fn call_rate(&self, CallInfo { node, call, now_ms }: CallInfo) -> Option<(u64, Duration)> {
        let second = now_ms / 1_000;
        let mut state = self.lock();
        let (counted, calls) = state.calls.entry((node, call)).or_insert((second, 0));
        if *counted != second {
            (*counted, *calls) = (second, 0);
        }
        *calls += 1;
        match *calls {
            CALLS_PER_SECOND_MAX.. => Some((*calls, Duration::from_secs(1))),
            calls if calls.is_multiple_of(CALL_RATE_STEP) => Some((calls, Duration::ZERO)),
            _ => None,
        }
    }
}
