//! The audit log: one event per changed message.

use oncebox_core::{Action, LastError, Receipt};
use tracing::info;

use super::Operator;

/// What happened to a message: the last word of the event's stable name, such as `inbox.message.revived`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event(&'static str);

impl Event {
    pub(super) fn of(action: &Action) -> Self {
        Self(match action {
            Action::Redrive { .. } => "revived",
            Action::Cancel => "cancelled",
            Action::Erase => "erased",
            _ => "marked",
        })
    }

    pub(super) fn tell(self, operator: &Operator, receipt: &Receipt, last_error: Option<&LastError>) {
        let Operator { shared, namespace, actor, reason } = operator;
        let (uid, corr_id) = (receipt.uid, receipt.trace.correlation().unwrap_or_default());
        let last_error = last_error.map(LastError::as_str).unwrap_or_default();
        info!(target: "oncebox::audit", event = %format_args!("{namespace}.message.{}", self.0), store = %shared.name, %uid, corr_id, %actor, %reason, last_error);
    }
}
