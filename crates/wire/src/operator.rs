//! The operator's door, and dead letters.

mod listing;
mod message;
mod stats;
mod sweep;
mod topics;

pub use listing::{ByKey, Count, List, ListDead, Show, Sort};
pub use message::{Lease, Message, Namespace, Page, Reason, State};
pub use stats::{Counts, NamespaceCounts, Stats};
pub use sweep::{Redrive, RefusedMessage, Sweep, Swept};
pub use topics::{ListTopics, Topic, TopicPage};
