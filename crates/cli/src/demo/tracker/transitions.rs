//! State transitions of the tracker: one function per kind of event.

use std::time::Duration;

use super::{Line, Phase, Tone, Tracker};
use crate::demo::event::Answer;
use crate::demo::worker::VISIBILITY;
use crate::value;

impl Tracker {
    pub(super) fn sent(&mut self, at: Duration, index: usize, answer: Answer) -> Line {
        let first = self.messages[index].msg_id.is_none();
        let (msg_id, duplicate) = match answer {
            Answer::Accepted { msg_id, duplicate } => (msg_id, Some(duplicate)),
            Answer::Refused { msg_id } => (msg_id, None),
        };
        if *self.messages[index].msg_id.get_or_insert_with(|| msg_id.clone()) != msg_id {
            self.violation(index, "was sent again and answered with another id");
        }
        let (tone, action, detail) = match duplicate {
            None => {
                self.totals.refused += 1;
                (Tone::Warning, "refused", "same key, different payload: E_DUPLICATE")
            }
            Some(duplicate) if first => {
                self.totals.accepted += 1;
                // The server accepted the message and was killed before it could answer; the client retried the call.
                let text = if duplicate { "accepted before the kill, answered now" } else { "" };
                (Tone::Plain, "accepted", text)
            }
            Some(duplicate) => {
                if !duplicate {
                    self.violation(index, "was accepted twice");
                }
                self.totals.duplicates += 1;
                (Tone::Dim, "duplicate", "answered with the id of the first call")
            }
        };
        let mut detail = detail.to_owned();
        if detail.is_empty() {
            let planned = &self.context.scenario.messages[index];
            detail = format!("{}: {}", planned.event, planned.about);
        }
        if self.messages[index].phase == Phase::NotSent {
            self.set(at, index, Phase::Waiting);
        }
        Line { at, tone, actor: "server", action, index: Some(index), detail }
    }

    pub(super) fn started(&mut self, at: Duration, index: usize, worker: &'static str, attempt: u32) -> Line {
        if self.messages[index].acked.is_some_and(|acked| attempt > acked) {
            self.violation(index, "was delivered again after its acknowledgement was confirmed");
        }
        self.totals.deliveries += 1;
        self.messages[index].attempt = self.messages[index].attempt.max(attempt);
        let (tone, action, detail) = match self.messages[index].phase.clone() {
            Phase::Failed { .. } => {
                self.totals.retried += 1;
                (Tone::Plain, "retried", format!("delivery {attempt}"))
            }
            Phase::Orphaned { worker: before } => {
                self.totals.taken_over += 1;
                (Tone::Good, "took over", format!("delivery {attempt}: {before} did not settle it"))
            }
            Phase::Redriven => (Tone::Plain, "started", format!("delivery {attempt}, after the fix")),
            _ if attempt > 1 => {
                self.totals.taken_over += 1;
                (Tone::Good, "took over", format!("delivery {attempt}: not settled in time"))
            }
            _ => (Tone::Dim, "started", format!("delivery {attempt}")),
        };
        self.set(at, index, Phase::Running { worker, since: at });
        Line { at, tone, actor: worker, action, index: Some(index), detail }
    }

    pub(super) fn failed(&mut self, at: Duration, index: usize, worker: &'static str, error: String) -> Line {
        self.set(at, index, Phase::Failed { error: error.clone() });
        Line { at, tone: Tone::Warning, actor: worker, action: "failed", index: Some(index), detail: error }
    }

    pub(super) fn acked(
        &mut self,
        at: Duration,
        index: usize,
        worker: &'static str,
        attempt: u32,
    ) -> Vec<Line> {
        if self.messages[index].attempt > attempt {
            self.violation(index, "was acknowledged by a worker although another one had received it later");
        }
        if self.messages[index].acked.replace(attempt).is_some() {
            self.violation(index, "was acknowledged twice");
            return Vec::new();
        }
        if matches!(self.messages[index].phase, Phase::Dead { .. }) {
            self.violation(index, "was acknowledged while it was a dead letter");
        }
        self.totals.done += 1;
        (self.messages[index].phase, self.messages[index].changed) = (Phase::Done { worker }, at);
        let detail = match self.messages[index].attempt {
            1 => String::new(),
            attempt => format!("after {attempt} deliveries"),
        };
        vec![Line { at, tone: Tone::Good, actor: worker, action: "done", index: Some(index), detail }]
    }

    /// The lease was lost before the worker settled: the message is redelivered, or another worker has it.
    pub(super) fn lost(&mut self, at: Duration, index: usize, worker: &'static str) -> Line {
        if self.messages[index].phase == (Phase::Handled { worker }) {
            self.set(at, index, Phase::Waiting);
        }
        let detail = "settled too late: E_LEASE_LOST".to_owned();
        Line { at, tone: Tone::Warning, actor: worker, action: "lease lost", index: Some(index), detail }
    }

    pub(super) fn died(&mut self, at: Duration, index: usize, died: String, dead: Phase) -> Vec<Line> {
        // Every listing contains the dead letters of the previous one.
        if self.messages[index].died.as_ref() == Some(&died) {
            return Vec::new();
        }
        self.messages[index].died = Some(died);
        if self.messages[index].acked.is_some() {
            self.violation(index, "is a dead letter although its acknowledgement was confirmed");
        }
        let detail = match &dead {
            Phase::Dead { reason: Some(reason), .. } => {
                format!("{}: kept for an operator", value::wire_name(reason))
            }
            _ => "kept for an operator".to_owned(),
        };
        self.totals.dead += 1;
        self.set(at, index, dead);
        vec![Line { at, tone: Tone::Bad, actor: "server", action: "dead", index: Some(index), detail }]
    }

    pub(super) fn redriven(&mut self, at: Duration, index: usize) -> Line {
        self.totals.redriven += 1;
        let message = &mut self.messages[index];
        (message.phase, message.changed) = (Phase::Redriven, at);
        let detail = "back in its topic".to_owned();
        Line { at, tone: Tone::Plain, actor: "operator", action: "redrove", index: Some(index), detail }
    }

    pub(super) fn crashed(&mut self, at: Duration, worker: &'static str, held: &[usize]) -> Line {
        self.crashed = Some(worker);
        for index in held {
            self.set(at, *index, Phase::Orphaned { worker });
        }
        let (held, seconds) = (held.len(), VISIBILITY.as_secs());
        let detail = format!("while holding {held}: they are redelivered after {seconds} s");
        Line { at, tone: Tone::Bad, actor: worker, action: "crashed", index: None, detail }
    }

    pub(super) fn killed(&mut self, at: Duration) -> Line {
        self.killed = Some(at);
        let open = |phase: &Phase| !matches!(phase, Phase::NotSent | Phase::Done { .. } | Phase::Dead { .. });
        let open = self.messages.iter().filter(|message| open(&message.phase)).count();
        let detail =
            format!("by SIGKILL, with {open} messages unfinished; senders and workers keep retrying");
        Line { at, tone: Tone::Bad, actor: "server", action: "killed", index: None, detail }
    }

    pub(super) fn ready(&mut self, at: Duration) -> Line {
        let down = at.saturating_sub(self.killed.unwrap_or(at)).as_secs_f64();
        let detail = format!("after {down:.1} s, with every message that it had accepted");
        Line { at, tone: Tone::Good, actor: "server", action: "ready", index: None, detail }
    }
}
