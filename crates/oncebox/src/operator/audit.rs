//! The audit log: one event per changed message.

use oncebox_core::{Action, LastError, Uid};
use tracing::info;

use super::Operator;

/// What happened to a message, by its stable name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event(&'static str);

impl Event {
    pub(super) fn of(action: &Action) -> Self {
        Self(match action {
            Action::Redrive { .. } => "inbox.message.revived",
            Action::Cancel => "inbox.message.cancelled",
            Action::Erase => "inbox.message.erased",
            _ => "inbox.message.marked",
        })
    }

    pub(super) fn tell(self, operator: &Operator, uid: Uid, last_error: Option<&LastError>) {
        let Operator { shared, actor, reason } = operator;
        let last_error = last_error.map(LastError::as_str).unwrap_or_default();
        info!(target: "oncebox::audit", event = self.0, store = %shared.name, %uid, %actor, %reason, last_error);
    }
}
