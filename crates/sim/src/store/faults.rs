//! Which calls go wrong, and how: drawn from the seed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::chance::Dice;

/// From so many calls of one kind in a second on, a node is in a hurry.
const HURRY_CALLS: u64 = 50;
/// A node that calls so often in a second has to wait for the next: time would stand still for ever.
const CALLS_MAX: u64 = 1_000;
/// A wake-up that nobody hears.
pub(super) const DEAF: &str = "deaf";

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Nothing gets through for a while.
    Unreachable,
    /// The request is lost.
    Before,
    /// The answer is lost.
    After,
    SlowRequest(Duration),
    SlowAnswer(Duration),
    /// It is made and never answered.
    Hang,
    /// It fails, and is made later all the same.
    Late(Duration),
}

impl Fault {
    pub(super) fn kind(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Unreachable => Some("unreachable"),
            Self::Before => Some("before"),
            Self::After => Some("after"),
            Self::SlowRequest(_) => Some("slow request"),
            Self::SlowAnswer(_) => Some("slow answer"),
            Self::Hang => Some("hang"),
            Self::Late(_) => Some("late"),
        }
    }
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub(super) node: u64,
    pub(super) call: &'static str,
    pub(super) now_ms: u64,
}

/// The network's moods. All nodes share them.
pub(crate) struct Faults(Mutex<Moods>);

struct Moods {
    dice: Dice,
    calm: bool,
    /// Of a hundred calls so many go wrong.
    percent: u64,
    deaf_percent: u64,
    /// A call takes up to so long each way when nothing is wrong.
    latency_ms: u64,
    unreachable_until: Option<Instant>,
    /// By node and call: the second, and the calls in it.
    calls: BTreeMap<(u64, &'static str), (u64, u64)>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "faults");
        let percent = dice.pick(&[2, 5, 10, 20]);
        let deaf_percent = dice.pick(&[0, 10, 60]);
        let latency_ms = dice.pick(&[0, 2, 20]);
        let (unreachable_until, calls) = (None, BTreeMap::new());
        Self(Mutex::new(Moods {
            dice,
            calm: false,
            percent,
            deaf_percent,
            latency_ms,
            unreachable_until,
            calls,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Moods> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on nothing goes wrong.
    pub(crate) fn cease(&self) {
        self.lock().calm = true;
    }

    /// Nothing gets through for so long.
    pub(crate) fn interrupt(&self, length: Duration) {
        self.lock().unreachable_until = Some(Instant::now() + length);
    }

    pub(super) fn latency(&self) -> (Duration, Duration) {
        let mut moods = self.lock();
        let most = moods.latency_ms;
        (moods.dice.millis(0, most), moods.dice.millis(0, most))
    }

    pub(super) fn is_deaf(&self) -> bool {
        let mut moods = self.lock();
        let percent = moods.deaf_percent;
        !moods.calm && moods.dice.percent(percent)
    }

    pub(super) fn draw(&self, called: Called) -> Fault {
        let mut moods = self.lock();
        let percent = moods.percent;
        if moods.calm {
            return Fault::None;
        }
        if moods.unreachable_until.is_some_and(|until| Instant::now() < until) {
            return Fault::Unreachable;
        }
        if !moods.dice.percent(percent) {
            return Fault::None;
        }
        let delay = moods.dice.millis(1, 4_000);
        let kinds = [
            Fault::Before,
            Fault::After,
            Fault::After,
            Fault::SlowRequest(delay),
            Fault::SlowAnswer(delay),
            Fault::Hang,
            Fault::Late(delay),
        ];
        match called.call {
            "work" | "extend" | "accept" => moods.dice.pick(&kinds),
            _ => moods.dice.pick(&kinds[..6]),
        }
    }

    /// How often a node has made this call in the present second, if that is very often, and how long it has to wait.
    pub(super) fn hurry(&self, Called { node, call, now_ms }: Called) -> Option<(u64, Duration)> {
        let second = now_ms / 1_000;
        let mut moods = self.lock();
        let (counted, calls) = moods.calls.entry((node, call)).or_insert((second, 0));
        if *counted != second {
            (*counted, *calls) = (second, 0);
        }
        *calls += 1;
        match *calls {
            CALLS_MAX.. => Some((*calls, Duration::from_secs(1))),
            calls if calls.is_multiple_of(HURRY_CALLS) => Some((calls, Duration::ZERO)),
            _ => None,
        }
    }
}
