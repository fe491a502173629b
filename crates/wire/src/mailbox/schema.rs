//! OpenAPI schemas of the lists of messages and deliveries.

use utoipa::openapi::Schema;

use super::{SendRequest, SettleItem};
use crate::field_schema::list_of;

/// Messages of a batch.
pub(super) fn messages() -> Schema {
    list_of::<SendRequest>(
        "A message. An invalid item is rejected on its own, without affecting the others.",
        "Messages to send, in order: up to 1,000.",
    )
}

/// Deliveries to settle.
pub(super) fn deliveries() -> Schema {
    list_of::<SettleItem>(
        "A delivery to settle. An invalid item is rejected on its own, without affecting the others.",
        "Deliveries to settle, in order: up to 1,000.",
    )
}
