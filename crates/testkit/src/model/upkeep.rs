//! Upkeep: what is forgotten, and when there is something to do.

use std::time::Duration;

use oncebox_core::{Budget, Namespace, Snapshot, State, Timestamp};

use super::{Facts, Model};

/// How long a finished message answers the repeat of its settlement.
const REPEAT: Duration = Duration::from_mins(10);

impl Model {
    /// Forgets everything that the retentions of the budget allow, whatever its size; tells how many.
    pub fn upkeep(&mut self, budget: &Budget) -> u64 {
        self.catch_up();
        let (now, before) = (self.now, self.rows.len());
        self.rows.retain(|row| forgotten_at(&row.message, budget).is_none_or(|at| now < at));
        (before - self.rows.len()) as u64
    }

    /// When upkeep has something to do next.
    pub fn next_upkeep(&self, budget: &Budget) -> Option<Timestamp> {
        let messages = self.rows.iter().map(|row| &row.message);
        let instants = messages.flat_map(|message| [message.next_event(), forgotten_at(message, budget)]);
        instants.flatten().filter(|at| *at != Timestamp::NEVER).min()
    }
}

/// When a message is forgotten, if nothing happens to it before: by its retention, but never before what was promised.
fn forgotten_at(message: &Snapshot, budget: &Budget) -> Option<Timestamp> {
    let by_retention = match message.state {
        State::Seen if message.is_leased() => None,
        State::Seen => Some(message.accepted_at.after(budget.seen_keep?)),
        State::Dead if message.key.namespace == Namespace::Mailbox => {
            Some(message.finished_at?.after(budget.dlq_keep?))
        }
        State::Dead => Some(message.finished_at?.after(budget.dead_keep?)),
        State::Done => message.finished_at,
        _ => None,
    };
    let promised = if message.keyed { message.held_until() } else { Timestamp::EPOCH };
    let repeated = repeat_window_end(message).unwrap_or(Timestamp::EPOCH);
    Some(by_retention?.max(promised).max(repeated))
}

/// Until when a finished message has to answer the repeat of its settlement.
pub(super) fn repeat_window_end(message: &Snapshot) -> Option<Timestamp> {
    Some(message.finished_at?.after(REPEAT))
}
