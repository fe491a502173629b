//! The columns that a sender provides, as `accept.sql` expects them: one array per column, borrowed from the
//! messages.

use oncebox_core::{CallerHash, NewMessage, Partition};
use uuid::Uuid;

use super::write::{attributes, saturating_i32, seal};
use crate::codes::{DIVERGENCES, code, keep_ms, millis, namespace, timestamp_ms};
use crate::query::Query;

macro_rules! input {
    ($($bind:ident $column:ident: $type:ty),* $(,)?) => {
        /// The columns, in the order in which they are bound after the ordinal.
        pub(crate) const INPUT_COLUMNS: &[&str] = &[$(stringify!($column)),*];

        /// Messages to be accepted.
        #[derive(Default)]
        pub(crate) struct MessageInput<'a> {
            /// The message's ordinal in the call, starting at 1.
            ordinal: Vec<i64>,
            $($column: Vec<$type>,)*
        }

        impl<'a> MessageInput<'a> {
            /// Binds the columns, or the values of a single message.
            pub(crate) fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> where 'a: 'q {
                query.bind_column(&self.ordinal)$(.$bind(&self.$column))*
            }
        }
    };
}

input!(
    bind_column uid: Uuid,
    bind_column namespace: i16,
    bind_column key_hash: Uuid,
    bind_column source: &'a str,
    bind_column id: &'a str,
    bind_column topic: &'a str,
    bind_column shard: i32,
    bind_sparse_column partition: Option<&'a str>,
    bind_column payload: &'a [u8],
    bind_sparse_column attributes: Option<String>,
    bind_sparse_column due: Option<i64>,
    bind_sparse_column expires: Option<i64>,
    bind_column fingerprint: &'a [u8],
    bind_sparse_column seal: Option<Vec<u8>>,
    bind_sparse_column hash_name: Option<&'a str>,
    bind_sparse_column hash: Option<&'a [u8]>,
    bind_sparse_column correlation: Option<&'a str>,
    bind_sparse_column causation: Option<&'a str>,
    bind_sparse_column tenant: Option<&'a str>,
    bind_sparse_column attempts_max: Option<i32>,
    bind_column window_ms: i64,
    bind_sparse_column keep_ms: Option<i64>,
    bind_column divergence: i16,
    bind_column keep_finished: bool,
);

/// A message's index in its call, and its ids.
pub(crate) struct Item {
    pub(crate) index: usize,
    pub(crate) uid: Uuid,
    pub(crate) key_hash: Uuid,
}

impl<'a> MessageInput<'a> {
    pub(crate) fn push(&mut self, message: &'a NewMessage, item: &Item) {
        let NewMessage { key, content, fingerprint, hash, trace, policy, .. } = message;
        self.ordinal.push(i64::try_from(item.index).unwrap_or(i64::MAX) + 1);
        self.uid.push(item.uid);
        self.namespace.push(namespace(key.namespace));
        self.key_hash.push(item.key_hash);
        self.source.push(key.source.as_str());
        self.id.push(key.id.as_str());
        self.topic.push(content.topic.as_str());
        self.shard.push(i32::from(content.shard.0));
        self.partition.push(content.partition.as_ref().map(Partition::as_str));
        self.payload.push(content.payload.as_bytes());
        self.attributes.push(attributes(&content.attributes));
        self.due.push(content.due.map(timestamp_ms));
        self.expires.push(content.expires.map(timestamp_ms));
        self.fingerprint.push(fingerprint.as_bytes());
        self.seal.push(content.seal.as_ref().map(seal));
        self.hash_name.push(hash.as_ref().map(CallerHash::algorithm));
        self.hash.push(hash.as_ref().map(CallerHash::as_bytes));
        self.correlation.push(trace.correlation());
        self.causation.push(trace.causation());
        self.tenant.push(trace.tenant());
        self.attempts_max.push(policy.attempts_max.map(|max| saturating_i32(max.get())));
        self.window_ms.push(millis(policy.hold.window));
        self.keep_ms.push(keep_ms(policy.hold.keep));
        self.divergence.push(code(&DIVERGENCES, policy.divergence));
        self.keep_finished.push(policy.keep_finished);
    }
}
