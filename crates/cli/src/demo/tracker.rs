//! Tracks the state of every message while the demo runs: takes events, returns lines for the screen.

mod transitions;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oncebox_client::wire::operator::ReasonName;

use super::context::Context;
use super::event::Event;

/// The state of a message as observed by the demo.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// No call that sends it was answered yet.
    NotSent,
    /// Waiting for a worker.
    Waiting,
    /// Redriven after it was a dead letter.
    Redriven,
    /// In a handler.
    Running { worker: &'static str, since: Duration },
    /// Its handler has succeeded; the acknowledgement is not confirmed yet.
    Handled { worker: &'static str },
    /// Its handler has failed; it is redelivered or becomes a dead letter.
    Failed { error: String },
    /// Its worker has crashed; its visibility timeout has not ended.
    Orphaned { worker: &'static str },
    /// The server has confirmed the acknowledgement.
    Done { worker: &'static str },
    /// The server lists it as a dead letter.
    Dead { reason: Option<ReasonName>, error: String },
}

/// One message.
pub(super) struct TrackedMessage {
    pub(super) phase: Phase,
    /// The id that the server assigned.
    pub(super) msg_id: Option<String>,
    /// The highest delivery number observed.
    pub(super) attempt: u32,
    /// The delivery that was acknowledged.
    acked: Option<u32>,
    /// When it last became a dead letter, as the server writes it.
    died: Option<String>,
    pub(super) changed: Duration,
    /// Events of workers that were faster than the answer to the sender; recorded after that answer.
    early: VecDeque<Event>,
}

/// Event counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
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

impl Totals {
    /// Calls that were answered.
    pub(super) fn calls(&self) -> usize {
        self.accepted + self.duplicates + self.refused
    }
}

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
}

/// One line of output about an event.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) at: Duration,
    pub(super) tone: Tone,
    pub(super) actor: &'static str,
    pub(super) action: &'static str,
    pub(super) index: Option<usize>,
    pub(super) detail: String,
}

pub(super) struct Tracker {
    pub(super) context: Arc<Context>,
    pub(super) messages: Vec<TrackedMessage>,
    pub(super) totals: Totals,
    pub(super) crashed: Option<&'static str>,
    /// When the server was last killed.
    killed: Option<Duration>,
    /// Guarantees that were broken.
    pub(super) violations: Vec<String>,
}

impl Tracker {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let tracked = |_: &_| TrackedMessage {
            phase: Phase::NotSent,
            msg_id: None,
            attempt: 0,
            acked: None,
            died: None,
            changed: Duration::ZERO,
            early: VecDeque::new(),
        };
        let messages = context.scenario.messages.iter().map(tracked).collect();
        Self {
            context,
            messages,
            totals: Totals::default(),
            crashed: None,
            killed: None,
            violations: Vec::new(),
        }
    }

    /// Whether every message that was sent is acknowledged or a dead letter.
    pub(super) fn is_settled(&self) -> bool {
        let settled = |message: &TrackedMessage| {
            matches!(message.phase, Phase::NotSent | Phase::Done { .. } | Phase::Dead { .. })
        };
        self.messages.iter().all(settled)
    }

    /// Number of current dead letters.
    pub(super) fn dead(&self) -> usize {
        self.messages.iter().filter(|message| matches!(message.phase, Phase::Dead { .. })).count()
    }

    /// Source and id of a message.
    pub(super) fn name(&self, index: usize) -> String {
        let planned = &self.context.scenario.messages[index];
        format!("{} {}", planned.source, planned.id)
    }

    /// Records an event; returns the lines to print.
    pub(super) fn record(&mut self, at: Duration, event: Event) -> Vec<Line> {
        if let Some(index) = event.after_accept()
            && self.messages[index].phase == Phase::NotSent
        {
            self.messages[index].early.push_back(event);
            return Vec::new();
        }
        match event {
            Event::Sent { index, answer } => {
                let mut lines = vec![self.sent(at, index, answer)];
                for event in std::mem::take(&mut self.messages[index].early) {
                    lines.extend(self.record(at, event));
                }
                lines
            }
            Event::Started { index, worker, attempt } => vec![self.started(at, index, worker, attempt)],
            Event::Handled { index, worker } => {
                self.set(at, index, Phase::Handled { worker });
                Vec::new()
            }
            Event::Failed { index, worker, error } => vec![self.failed(at, index, worker, error)],
            Event::Acked { index, worker, attempt } => self.acked(at, index, worker, attempt),
            Event::Lost { index, worker } => vec![self.lost(at, index, worker)],
            Event::Dead { index, reason, error, at: died } => {
                self.died(at, index, died, Phase::Dead { reason, error })
            }
            Event::Redriven { index } => vec![self.redriven(at, index)],
            Event::Crashed { worker, held } => vec![self.crashed(at, worker, &held)],
            Event::Killed => vec![self.killed(at)],
            Event::Restarted => {
                let detail = "on the same directory".to_owned();
                vec![Line {
                    at,
                    tone: Tone::Plain,
                    actor: "server",
                    action: "restarted",
                    index: None,
                    detail,
                }]
            }
            Event::Ready => vec![self.ready(at)],
            Event::Violation(text) => {
                self.violations.push(text);
                Vec::new()
            }
        }
    }

    /// Changes the phase, unless the message is done or dead: events of a late worker are ignored.
    fn set(&mut self, at: Duration, index: usize, phase: Phase) {
        let message = &mut self.messages[index];
        if !matches!(message.phase, Phase::Done { .. } | Phase::Dead { .. }) {
            message.phase = phase;
            message.changed = at;
        }
    }

    fn violation(&mut self, index: usize, text: &str) {
        self.violations.push(format!("{} {text}", self.name(index)));
    }
}

#[cfg(test)]
mod tests;
