//! Deliveries that a worker has received and not settled yet.

use oncebox_core::{Fence, Uid};

/// A delivery that the caller holds.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) key: String,
    pub(super) uid: Uid,
    pub(super) fence: Fence,
    pub(super) until: u64,
    /// The verdict of a settlement that was not answered.
    pub(super) verdict: Option<&'static str>,
}
