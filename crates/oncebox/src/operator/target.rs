//! What an order is about.

use oncebox_core::{Action, Error, LastError, Operated, Ref, Snapshot};

use super::Operator;

/// Messages that are read at once, with their payloads, at most.
const READ_AT_ONCE_MAX: usize = 64;

/// A message that an order is about.
pub(super) struct Target {
    pub(super) at: Ref,
    /// For the audit log: a change may hide it.
    pub(super) error: Option<LastError>,
}

impl Target {
    pub(super) fn of<P>(message: &Snapshot<P>) -> Self {
        Self { at: message.uid.into(), error: message.last_error.clone() }
    }
}

impl Operator {
    /// Carries out orders by name, one outcome each, in order.
    pub(super) async fn order_named(&self, targets: &[Ref], action: &Action) -> Result<Vec<Operated>, Error> {
        let mut found = Vec::with_capacity(targets.len());
        for targets in targets.chunks(READ_AT_ONCE_MAX) {
            let messages = self.shared.store.get(targets).await?;
            found.extend(targets.iter().zip(messages).map(|(at, message)| Target {
                at: at.clone(),
                error: message.and_then(|message| message.last_error),
            }));
        }
        self.order(found, action).await
    }
}
