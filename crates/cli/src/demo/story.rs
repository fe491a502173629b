//! What is known of every message while the demo runs: events in, lines for the reader out.

mod turns;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oncebox_client::wire::operator::Reason;

use super::event::Event;
use super::world::World;

/// Where a message stands, as far as the demo has seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// It has not come yet.
    Ahead,
    /// It waits for a worker.
    Waiting,
    /// It was a dead letter, and gets another chance.
    Redriven,
    /// It is in a handler.
    Running { worker: &'static str, since: Duration },
    /// Its handler has ended well; the server has not said so yet.
    Handled { worker: &'static str },
    /// Its handler has failed; it comes again, or dies.
    Failed { error: String },
    /// Its worker has crashed; its visibility has not ended.
    Orphaned { worker: &'static str },
    /// The server has answered that it is acknowledged.
    Done { worker: &'static str },
    /// The server lists it among its dead letters.
    Dead { reason: Option<Reason>, error: String },
}

/// One message.
pub(super) struct Act {
    pub(super) phase: Phase,
    /// The message that the server made of it.
    pub(super) msg_id: Option<String>,
    /// The highest number that a delivery of it had.
    pub(super) attempt: u32,
    /// The delivery that was acknowledged.
    acked: Option<u32>,
    /// When it died last, as the server writes it.
    died: Option<String>,
    pub(super) changed: Duration,
    /// A worker can be faster than the answer to the sender; what it did is told after that answer.
    early: VecDeque<Event>,
}

/// How often things happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) accepted: usize,
    pub(super) duplicates: usize,
    pub(super) refused: usize,
    pub(super) deliveries: usize,
    pub(super) retried: usize,
    pub(super) taken_over: usize,
    pub(super) done: usize,
    pub(super) dead: usize,
    pub(super) redriven: usize,
}

impl Tally {
    /// Calls that were answered.
    pub(super) fn calls(&self) -> usize {
        self.accepted + self.duplicates + self.refused
    }
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
    /// When the server was killed last.
    killed: Option<Duration>,
    /// What must not happen, and did.
    pub(super) faults: Vec<String>,
}

impl Story {
    pub(super) fn new(world: Arc<World>) -> Self {
        let act = |_: &_| Act {
            phase: Phase::Ahead,
            msg_id: None,
            attempt: 0,
            acked: None,
            died: None,
            changed: Duration::ZERO,
            early: VecDeque::new(),
        };
        let acts = world.script.parts.iter().map(act).collect();
        Self { world, acts, tally: Tally::default(), crashed: None, killed: None, faults: Vec::new() }
    }

    /// Whether every message that came is acknowledged or a dead letter.
    pub(super) fn is_over(&self) -> bool {
        let ended = |act: &Act| matches!(act.phase, Phase::Ahead | Phase::Done { .. } | Phase::Dead { .. });
        self.acts.iter().all(ended)
    }

    /// So many are dead letters now.
    pub(super) fn dead(&self) -> usize {
        self.acts.iter().filter(|act| matches!(act.phase, Phase::Dead { .. })).count()
    }

    /// Its name in the world that it comes from.
    pub(super) fn name(&self, part: usize) -> String {
        let part = &self.world.script.parts[part];
        format!("{} {}", part.source, part.id)
    }

    /// Takes in what happened, and gives back what there is to tell.
    pub(super) fn tell(&mut self, at: Duration, event: Event) -> Vec<Line> {
        if let Some(part) = event.after_arrival()
            && self.acts[part].phase == Phase::Ahead
        {
            self.acts[part].early.push_back(event);
            return Vec::new();
        }
        match event {
            Event::Arrived { part, answer } => {
                let mut lines = vec![self.arrived(at, part, answer)];
                for event in std::mem::take(&mut self.acts[part].early) {
                    lines.extend(self.tell(at, event));
                }
                lines
            }
            Event::Started { part, worker, attempt } => vec![self.started(at, part, worker, attempt)],
            Event::Handled { part, worker } => {
                self.set(at, part, Phase::Handled { worker });
                Vec::new()
            }
            Event::Failed { part, worker, error } => vec![self.failed(at, part, worker, error)],
            Event::Acked { part, worker, attempt } => self.acked(at, part, worker, attempt),
            Event::Lost { part, worker } => vec![self.lost(at, part, worker)],
            Event::Dead { part, reason, error, at: died } => {
                self.died(at, part, died, Phase::Dead { reason, error })
            }
            Event::Redriven { part } => vec![self.redriven(at, part)],
            Event::Crashed { worker, held } => vec![self.crashed(at, worker, &held)],
            Event::Killed => vec![self.killed(at)],
            Event::Restarted => {
                let detail = "on the same directory".to_owned();
                vec![Line { at, tone: Tone::Plain, who: "server", what: "starts", part: None, detail }]
            }
            Event::Back => vec![self.back(at)],
            Event::Fault(text) => {
                self.faults.push(text);
                Vec::new()
            }
        }
    }

    /// What has come to its end stays there: a worker that is late changes nothing.
    fn set(&mut self, at: Duration, part: usize, phase: Phase) {
        let act = &mut self.acts[part];
        if !matches!(act.phase, Phase::Done { .. } | Phase::Dead { .. }) {
            act.phase = phase;
            act.changed = at;
        }
    }

    fn fault(&mut self, part: usize, text: &str) {
        self.faults.push(format!("{} {text}", self.name(part)));
    }
}

#[cfg(test)]
mod tests;
