//! The audit log: one event per changed message.

use oncebox_core::{Action, LastError, MessageSummary, Namespace};
use tracing::field::display;
use tracing::info;

use super::Operator;
use crate::msg_id::MsgId;

/// What happened to a message: the last part of the event's stable name, such as `inbox.message.revived`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditEvent(&'static str);

impl AuditEvent {
    pub(super) fn of(action: &Action) -> Self {
        Self(match action {
            Action::Redrive { .. } => "revived",
            Action::Cancel => "cancelled",
            Action::Erase => "erased",
            _ => "marked",
        })
    }

    pub(super) fn log(self, operator: &Operator, summary: &MessageSummary, last_error: Option<&LastError>) {
        let Operator { shared, namespace, actor, reason, .. } = operator;
        // The id that tables and responses show. Outside the mailbox, programs know the message by its uid.
        let msg_id = MsgId::from(summary.uid);
        let uid = (*namespace != Namespace::Mailbox).then(|| display(summary.uid));
        let corr_id = summary.trace.correlation().unwrap_or_default();
        let last_error = last_error.map(LastError::as_str).unwrap_or_default();
        info!(target: "oncebox::audit", event = %format_args!("{namespace}.message.{}", self.0), store = %shared.name, %msg_id, uid, corr_id, %actor, %reason, last_error);
    }
}
