//! Operator API: messages in any namespace, dead letters, topics and statistics.

mod listing;
mod message;
mod pauses;
mod revocations;
mod stats;
mod sweep;
mod topics;

pub use listing::{ByKeyRequest, CountRequest, ListDeadRequest, ListRequest, ShowRequest, SortOrder};
pub use message::{LeaseDetails, ListResponse, MessageDetails, NamespaceName, ReasonName, StateName};
pub use pauses::{
    ListPausedRequest, ListPausedResponse, PauseName, PauseRequest, PauseResponse, PausedTopicDetails,
    QueueName,
};
pub use revocations::{ListRevocationsResponse, RevocationDetails, RevokeRequest};
pub use stats::{CountsResponse, NamespaceCounts, StatsResponse};
pub use sweep::{RedriveRequest, RefusedMessage, SweepRequest, SweepResponse};
pub use topics::{ListTopicsRequest, ListTopicsResponse, TopicDetails};
