//! The messages that an operator's orders apply to.

use oncebox_core::{Action, Error, LastError, MessageRef, Operated, Snapshot};

use super::Operator;

/// Maximum number of messages read in one call, because they are read with their payloads.
const READ_AT_ONCE_MAX: usize = 64;

/// A message that an order applies to.
pub(super) struct Target {
    pub(super) message: MessageRef,
    /// The last error before the change, for the audit log: the change may clear it.
    pub(super) error: Option<LastError>,
}

impl Target {
    pub(super) fn of<P>(message: &Snapshot<P>) -> Self {
        Self { message: message.uid.into(), error: message.last_error.clone() }
    }
}

impl Operator {
    /// Applies an action to these messages, and returns one outcome for each, in order.
    pub(super) async fn order_all(
        &self,
        targets: &[MessageRef],
        action: &Action,
    ) -> Result<Vec<Operated>, Error> {
        let mut found = Vec::with_capacity(targets.len());
        for targets in targets.chunks(READ_AT_ONCE_MAX) {
            let snapshots = self.shared.store.get(targets).await?;
            found.extend(targets.iter().zip(snapshots).map(|(message, snapshot)| Target {
                message: message.clone(),
                error: snapshot.and_then(|snapshot| snapshot.last_error),
            }));
        }
        self.order(found, action).await
    }
}
