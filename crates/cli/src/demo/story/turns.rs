//! The turns that a story takes: one function per kind of event.

use std::time::Duration;

use super::{Line, Phase, Story, Tone};
use crate::demo::event::Answer;
use crate::demo::worker::VISIBILITY;
use crate::word;

impl Story {
    pub(super) fn arrived(&mut self, at: Duration, part: usize, answer: Answer) -> Line {
        let first = self.acts[part].msg_id.is_none();
        let (msg_id, duplicate) = match answer {
            Answer::Taken { msg_id, duplicate } => (msg_id, Some(duplicate)),
            Answer::Refused { msg_id } => (msg_id, None),
        };
        if *self.acts[part].msg_id.get_or_insert_with(|| msg_id.clone()) != msg_id {
            self.fault(part, "came again, and was answered with another id");
        }
        let (tone, what, detail) = match duplicate {
            None => {
                self.tally.refused += 1;
                (Tone::Odd, "refused", "other content under the same key: E_DUPLICATE")
            }
            Some(duplicate) if first => {
                self.tally.accepted += 1;
                // The server took it in, and was killed before it could say so; the client repeated the call.
                let text = if duplicate { "taken in before the kill, answered now" } else { "" };
                (Tone::Plain, "accepted", text)
            }
            Some(duplicate) => {
                if !duplicate {
                    self.fault(part, "was taken in twice");
                }
                self.tally.duplicates += 1;
                (Tone::Quiet, "duplicate", "came before: answered with the first id")
            }
        };
        let mut detail = detail.to_owned();
        if detail.is_empty() {
            let part = &self.world.script.parts[part];
            detail = format!("{}: {}", part.event, part.about);
        }
        if self.acts[part].phase == Phase::Ahead {
            self.set(at, part, Phase::Waiting);
        }
        Line { at, tone, who: "server", what, part: Some(part), detail }
    }

    pub(super) fn started(&mut self, at: Duration, part: usize, worker: &'static str, attempt: u32) -> Line {
        if self.acts[part].acked.is_some_and(|acked| attempt > acked) {
            self.fault(part, "was delivered again after its acknowledgement was answered");
        }
        self.tally.deliveries += 1;
        self.acts[part].attempt = self.acts[part].attempt.max(attempt);
        let (tone, what, detail) = match self.acts[part].phase.clone() {
            Phase::Failed { .. } => {
                self.tally.retried += 1;
                (Tone::Plain, "tries again", format!("delivery {attempt}"))
            }
            Phase::Orphaned { worker: before } => {
                self.tally.taken_over += 1;
                (Tone::Good, "takes over", format!("delivery {attempt}: {before} never settled it"))
            }
            Phase::Redriven => (Tone::Plain, "handles", format!("delivery {attempt}, after the fix")),
            _ if attempt > 1 => {
                self.tally.taken_over += 1;
                (Tone::Good, "takes over", format!("delivery {attempt}: not settled in time"))
            }
            _ => (Tone::Quiet, "handles", format!("delivery {attempt}")),
        };
        self.set(at, part, Phase::Running { worker, since: at });
        Line { at, tone, who: worker, what, part: Some(part), detail }
    }

    pub(super) fn failed(&mut self, at: Duration, part: usize, worker: &'static str, error: String) -> Line {
        self.set(at, part, Phase::Failed { error: error.clone() });
        Line { at, tone: Tone::Odd, who: worker, what: "failed", part: Some(part), detail: error }
    }

    pub(super) fn acked(
        &mut self,
        at: Duration,
        part: usize,
        worker: &'static str,
        attempt: u32,
    ) -> Vec<Line> {
        if self.acts[part].attempt > attempt {
            self.fault(part, "was acknowledged by a worker that somebody had taken it over from");
        }
        if self.acts[part].acked.replace(attempt).is_some() {
            self.fault(part, "was acknowledged twice");
            return Vec::new();
        }
        if matches!(self.acts[part].phase, Phase::Dead { .. }) {
            self.fault(part, "was acknowledged as a dead letter");
        }
        self.tally.done += 1;
        (self.acts[part].phase, self.acts[part].changed) = (Phase::Done { worker }, at);
        let detail = match self.acts[part].attempt {
            1 => String::new(),
            attempt => format!("after {attempt} deliveries"),
        };
        vec![Line { at, tone: Tone::Good, who: worker, what: "done", part: Some(part), detail }]
    }

    /// Too late: the delivery was not held any more. The message comes again, or somebody else has it.
    pub(super) fn lost(&mut self, at: Duration, part: usize, worker: &'static str) -> Line {
        if self.acts[part].phase == (Phase::Handled { worker }) {
            self.set(at, part, Phase::Waiting);
        }
        let detail = "settled too late: E_LEASE_LOST".to_owned();
        Line { at, tone: Tone::Odd, who: worker, what: "is late", part: Some(part), detail }
    }

    pub(super) fn died(&mut self, at: Duration, part: usize, died: String, dead: Phase) -> Vec<Line> {
        // A listing tells of the same death again and again.
        if self.acts[part].died.as_ref() == Some(&died) {
            return Vec::new();
        }
        self.acts[part].died = Some(died);
        if self.acts[part].acked.is_some() {
            self.fault(part, "is a dead letter, though its acknowledgement was answered");
        }
        let detail = match &dead {
            Phase::Dead { reason: Some(reason), .. } => format!("{}: kept for an operator", word::of(reason)),
            _ => "kept for an operator".to_owned(),
        };
        self.tally.dead += 1;
        self.set(at, part, dead);
        vec![Line { at, tone: Tone::Bad, who: "server", what: "dead", part: Some(part), detail }]
    }

    pub(super) fn redriven(&mut self, at: Duration, part: usize) -> Line {
        self.tally.redriven += 1;
        let act = &mut self.acts[part];
        (act.phase, act.changed) = (Phase::Redriven, at);
        let detail = "another chance".to_owned();
        Line { at, tone: Tone::Plain, who: "operator", what: "redrives", part: Some(part), detail }
    }

    pub(super) fn crashed(&mut self, at: Duration, worker: &'static str, held: &[usize]) -> Line {
        self.crashed = Some(worker);
        for part in held {
            self.set(at, *part, Phase::Orphaned { worker });
        }
        let (held, seconds) = (held.len(), VISIBILITY.as_secs());
        let detail = format!("with {held} in its hands: they come again after {seconds} s");
        Line { at, tone: Tone::Bad, who: worker, what: "crashes", part: None, detail }
    }

    pub(super) fn killed(&mut self, at: Duration) -> Line {
        self.killed = Some(at);
        let open = |phase: &Phase| !matches!(phase, Phase::Ahead | Phase::Done { .. } | Phase::Dead { .. });
        let open = self.acts.iter().filter(|act| open(&act.phase)).count();
        let detail = format!("SIGKILL, with {open} messages to go; senders and workers keep trying");
        Line { at, tone: Tone::Bad, who: "server", what: "is killed", part: None, detail }
    }

    pub(super) fn back(&mut self, at: Duration) -> Line {
        let away = at.saturating_sub(self.killed.unwrap_or(at)).as_secs_f64();
        let detail = format!("after {away:.1} s, with everything that it had answered");
        Line { at, tone: Tone::Good, who: "server", what: "is back", part: None, detail }
    }
}
