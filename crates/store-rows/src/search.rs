//! What a database provides in addition to [`Rows`], if the engine also claims and forgets messages for it.

use oncebox_core::{
    Attributes, Budget, Namespace, Owner, Payload, RequestId, Shard, Snapshot, Topic, Topics, Uid,
};

use crate::body::Body;
use crate::rows::{Rows, StepFailure};

/// A lane of a namespace: a topic and a shard.
pub type LanePosition = (Topic, Shard);

/// A repeatable claim: the same owner and request get the same deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimIdentity {
    /// The namespace of the claim.
    pub namespace: Namespace,
    /// Who claims.
    pub owner: Owner,
    /// [`oncebox_core::Claim::request_identity`].
    pub request: RequestId,
}

/// The messages to find.
#[derive(Debug, Clone, Copy)]
pub enum Sought<'a> {
    /// Messages that a claim may deliver now: Processing, with content, due, past their retry, not expired, without a
    /// lease; and if they are in a partition, the first of its messages that are Processing and due, while none of the
    /// partition has a lease. Of each lane the lowest numbers, in order; the lanes take turns, in the order of topic and
    /// shard, beginning after `after` and going round.
    Claimable {
        /// The namespace.
        namespace: Namespace,
        /// The topics.
        topics: &'a Topics,
        /// The lane that was served last.
        after: Option<&'a LanePosition>,
        /// Maximum number of messages. If there are fewer, these are all.
        items_max: usize,
    },
    /// Messages that the retentions of the budget allow to forget, the oldest first. Done messages always are.
    Removable {
        /// The retentions.
        budget: &'a Budget,
        /// Maximum number of messages.
        items_max: usize,
    },
}

/// Finds messages that a call does not name.
pub trait Search: Rows {
    /// Finds messages, without locking them. A hint: the messages are loaded afterwards, and the state machine decides
    /// what may be done with them. What is missing or out of date delays a message, and changes no outcome.
    fn find(&mut self, sought: Sought<'_>) -> impl Future<Output = Result<Vec<Uid>, StepFailure>> + Send;

    /// Locks an identity, and loads the messages that have current leases under it. Of two transactions that name the
    /// same identity, the second waits here for the end of the first, or fails with [`StepFailure::Conflict`] by its
    /// commit at the latest: a lock that the application names, or a row with a version. Otherwise a claim and its
    /// concurrent repeat could get different messages.
    fn load_request(
        &mut self,
        identity: &ClaimIdentity,
    ) -> impl Future<Output = Result<Vec<Snapshot<Body>>, StepFailure>> + Send;

    /// Counts the messages of a namespace that are Processing and leased. Need not lock them: concurrent claims may
    /// exceed a limit by what they claim meanwhile.
    fn count_in_flight(
        &mut self,
        namespace: Namespace,
    ) -> impl Future<Output = Result<u64, StepFailure>> + Send;

    /// Reads the payloads and attributes of messages that this transaction has loaded, in the same order.
    fn contents(
        &mut self,
        uids: &[Uid],
    ) -> impl Future<Output = Result<Vec<(Payload, Attributes)>, StepFailure>> + Send;
}
