//! What is known of every message while the demo runs: events in, lines for the reader out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oncebox::{DeadReason, Outcome, Timestamp};

use super::event::{Ending, Event};
use super::handlers::{LEASE, World};

/// Where a message stands, as far as the demo has seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// It has not come yet.
    Ahead,
    /// It waits for a worker.
    Waiting,
    /// It is in a handler.
    Running {
        worker: &'static str,
        since: Duration,
    },
    /// Its handler has ended well; the store has not said so yet.
    Finished {
        worker: &'static str,
    },
    /// Its handler has failed; it comes again, or dies.
    Failed {
        error: String,
    },
    /// Its worker has crashed; its lease has not.
    Orphaned {
        worker: &'static str,
    },
    Done {
        worker: &'static str,
    },
    Dead {
        reason: DeadReason,
        error: String,
    },
}

/// One message.
pub(super) struct Act {
    pub(super) phase: Phase,
    pub(super) deliveries: u32,
    pub(super) changed: Duration,
    /// When its lease ends, or when it may be handled.
    pub(super) wakes: Option<Duration>,
    /// A handler can be faster than the answer to the sender; what it did is told after that answer.
    early: VecDeque<Event>,
}

/// How often things happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) accepted: usize,
    pub(super) duplicates: usize,
    pub(super) replaced: usize,
    pub(super) conflicts: usize,
    pub(super) deliveries: usize,
    pub(super) retried: usize,
    pub(super) taken_over: usize,
    pub(super) done: usize,
    pub(super) dead: usize,
}

/// How a line shall look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Good,
    Odd,
    Bad,
}

/// One line of the story.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) at: Duration,
    pub(super) tone: Tone,
    pub(super) who: &'static str,
    pub(super) what: &'static str,
    pub(super) part: Option<usize>,
    pub(super) detail: String,
}

pub(super) struct Story {
    pub(super) world: Arc<World>,
    pub(super) acts: Vec<Act>,
    pub(super) tally: Tally,
    pub(super) crashed: Option<&'static str>,
    /// The store's time when the demo began, as the first receipt told it.
    began: Option<Timestamp>,
}

impl Story {
    pub(super) fn new(world: Arc<World>) -> Self {
        let act = |_: &_| Act {
            phase: Phase::Ahead,
            deliveries: 0,
            changed: Duration::ZERO,
            wakes: None,
            early: VecDeque::new(),
        };
        let acts = world.script.parts.iter().map(act).collect();
        Self { world, acts, tally: Tally::default(), crashed: None, began: None }
    }

    /// Whether every message that came has come to its end.
    pub(super) fn is_over(&self) -> bool {
        let ended = |act: &Act| matches!(act.phase, Phase::Ahead | Phase::Done { .. } | Phase::Dead { .. });
        self.acts.iter().all(ended)
    }

    /// Takes in what happened, and gives back what there is to tell.
    pub(super) fn tell(&mut self, at: Duration, event: Event) -> Vec<Line> {
        match event {
            Event::Started { part, .. } | Event::Ended { part, .. } if self.is_early(part) => {
                self.acts[part].early.push_back(event);
                Vec::new()
            }
            Event::Arrived { part, outcome, accepted_at } => {
                let began = accepted_at.since(Timestamp::EPOCH).saturating_sub(at);
                self.began.get_or_insert(Timestamp::EPOCH.after(began));
                let mut lines = vec![self.arrived(at, part, outcome)];
                for event in std::mem::take(&mut self.acts[part].early) {
                    lines.extend(self.tell(at, event));
                }
                lines
            }
            Event::Started { part, worker, delivery } => vec![self.started(at, part, worker, delivery)],
            Event::Ended { part, worker, ending } => self.ended(at, part, worker, ending),
            Event::Done { part } => self.done(at, part),
            Event::Dead { part, reason, error } => self.dead(at, part, reason, error),
            Event::Crashed { worker } => vec![self.crashed(at, worker)],
        }
    }

    /// Notes when something will happen to a message by itself.
    pub(super) fn expect(&mut self, part: usize, moment: Option<Timestamp>) {
        let since = |moment: Timestamp| self.began.map(|began| moment.since(began));
        self.acts[part].wakes = moment.and_then(since);
    }

    fn is_early(&self, part: usize) -> bool {
        self.acts[part].phase == Phase::Ahead
    }

    fn set(&mut self, at: Duration, part: usize, phase: Phase) {
        let act = &mut self.acts[part];
        act.phase = phase;
        act.changed = at;
    }

    fn arrived(&mut self, at: Duration, part: usize, outcome: Outcome) -> Line {
        let tally = &mut self.tally;
        let (count, tone, what, detail) = match outcome {
            Outcome::Accepted => (&mut tally.accepted, Tone::Plain, "accepted", String::new()),
            Outcome::Replaced => {
                let detail = "other content than before: this one counts".to_owned();
                (&mut tally.replaced, Tone::Odd, "replaced", detail)
            }
            Outcome::Conflict => {
                (&mut tally.conflicts, Tone::Odd, "conflict", "other content: refused".to_owned())
            }
            _ => (
                &mut tally.duplicates,
                Tone::Quiet,
                "duplicate",
                "came before: not taken in again".to_owned(),
            ),
        };
        *count += 1;
        let parts = &self.world.script.parts;
        let detail = if outcome == Outcome::Accepted {
            format!("{}: {}", parts[part].topic, parts[part].about)
        } else {
            detail
        };
        if self.is_early(part) {
            self.set(at, part, Phase::Waiting);
        }
        Line { at, tone, who: "inbox", what, part: Some(part), detail }
    }

    fn started(&mut self, at: Duration, part: usize, worker: &'static str, delivery: u32) -> Line {
        let before = self.acts[part].phase.clone();
        self.tally.deliveries += 1;
        self.acts[part].deliveries = delivery;
        let gone = |worker| self.crashed == Some(worker);
        let (tone, what, detail) = match before {
            Phase::Failed { .. } => {
                self.tally.retried += 1;
                (Tone::Plain, "tries again", format!("delivery {delivery}"))
            }
            Phase::Orphaned { worker: before } => {
                self.tally.taken_over += 1;
                (Tone::Good, "takes over", format!("delivery {delivery}: the lease of {before} has ended"))
            }
            Phase::Running { worker: before, .. } | Phase::Finished { worker: before } if gone(before) => {
                self.tally.taken_over += 1;
                (Tone::Good, "takes over", format!("delivery {delivery}: {before} could not tell"))
            }
            Phase::Waiting if delivery > 1 => {
                self.tally.taken_over += 1;
                (Tone::Good, "takes over", format!("delivery {delivery}: claimed, but not begun"))
            }
            _ => (Tone::Quiet, "handles", format!("delivery {delivery}")),
        };
        self.set(at, part, Phase::Running { worker, since: at });
        Line { at, tone, who: worker, what, part: Some(part), detail }
    }

    fn ended(&mut self, at: Duration, part: usize, worker: &'static str, ending: Ending) -> Vec<Line> {
        let line =
            |what, detail| vec![Line { at, tone: Tone::Odd, who: worker, what, part: Some(part), detail }];
        match ending {
            Ending::Finished => {
                self.set(at, part, Phase::Finished { worker });
                Vec::new()
            }
            Ending::Failed(error) => {
                self.set(at, part, Phase::Failed { error: error.clone() });
                line("failed", error)
            }
            Ending::Panicked => {
                self.set(at, part, Phase::Failed { error: "panic".to_owned() });
                line("panicked", "caught: counts as a failure".to_owned())
            }
            Ending::Interrupted => {
                self.set(at, part, Phase::Orphaned { worker });
                line("was cut off", "still leased to a worker that is gone".to_owned())
            }
        }
    }

    fn done(&mut self, at: Duration, part: usize) -> Vec<Line> {
        let worker = match self.acts[part].phase {
            Phase::Done { .. } | Phase::Dead { .. } => return Vec::new(),
            Phase::Running { worker, .. } | Phase::Finished { worker } => worker,
            _ => "store",
        };
        self.tally.done += 1;
        self.set(at, part, Phase::Done { worker });
        let detail = match self.acts[part].deliveries {
            1 => String::new(),
            deliveries => format!("after {deliveries} deliveries"),
        };
        vec![Line { at, tone: Tone::Good, who: worker, what: "done", part: Some(part), detail }]
    }

    fn dead(&mut self, at: Duration, part: usize, reason: DeadReason, error: String) -> Vec<Line> {
        if matches!(self.acts[part].phase, Phase::Done { .. } | Phase::Dead { .. }) {
            return Vec::new();
        }
        self.tally.dead += 1;
        self.set(at, part, Phase::Dead { reason, error });
        let detail = format!("{}, kept for an operator", word(reason));
        vec![Line { at, tone: Tone::Bad, who: "store", what: "dead", part: Some(part), detail }]
    }

    fn crashed(&mut self, at: Duration, worker: &'static str) -> Line {
        self.crashed = Some(worker);
        let held = |act: &&Act| match act.phase {
            Phase::Running { worker: holder, .. } | Phase::Orphaned { worker: holder } => holder == worker,
            _ => false,
        };
        let held = self.acts.iter().filter(held).count();
        let seconds = LEASE.as_secs();
        let detail = format!("with {held} in its hands: their leases end after at most {seconds} s");
        Line { at, tone: Tone::Bad, who: worker, what: "crashes", part: None, detail }
    }
}

/// A reason as one reads it.
pub(super) fn word(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Failed => "given up by its handler",
        DeadReason::Exhausted => "too many failures",
        DeadReason::Undecodable => "not readable",
        DeadReason::Expired => "expired",
        DeadReason::Cancelled => "cancelled",
        DeadReason::Unhandled => "no handler",
        _ => "damaged",
    }
}
