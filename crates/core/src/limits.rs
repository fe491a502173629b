//! All limits of the core's types and calls, with the unit last.

use std::time::Duration;

/// Maximum length of a source, id, topic, partition or trace id.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Maximum length of a source, id or topic in the inbox (IBX-011, IBX-012, IBX-020).
pub const INBOX_TEXT_CHARS_MAX: usize = 255;
/// Maximum length of a worker name.
pub const WORKER_BYTES_MAX: usize = 128;
/// Maximum number of worker names in the counts of a topic.
pub const TOPIC_WORKERS_MAX: usize = 8;
/// Maximum size of a payload, in any store.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum length of a caller's hash.
pub const HASH_BYTES_MAX: usize = 128;
/// Maximum length of the name of a caller's hash algorithm.
pub const HASH_ALGORITHM_BYTES_MAX: usize = 32;
/// Maximum number of attributes of one message.
pub const ATTRIBUTES_COUNT_MAX: usize = 64;
/// Maximum length of an attribute name.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 128;
/// Maximum total size of the attribute names and values of one message.
pub const ATTRIBUTES_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a stored error text; longer texts are truncated.
pub const LAST_ERROR_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of operations in one call of [`crate::Store::records`].
pub const RECORD_OPS_MAX: usize = 100;
/// Maximum length of the name of a kind of records.
pub const RECORD_KIND_NAME_BYTES_MAX: usize = 32;
/// Maximum size of the value of a record.
pub const RECORD_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Maximum total size of the records of one kind.
pub const RECORD_KIND_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of topics that one claim may name.
pub const CLAIM_TOPICS_MAX: usize = 64;
/// Maximum number of messages that one claim may ask for.
pub const CLAIM_MESSAGES_MAX: u32 = 10_000;
/// Maximum number of items in one call of [`crate::Store`].
pub const CALL_ITEMS_MAX: usize = 10_000;
/// Maximum number of messages on one page.
pub const PAGE_ITEMS_MAX: u32 = 1_000;
/// Maximum number of topics with a retention of their own.
pub const RETENTION_TOPICS_MAX: usize = 1_000;
/// Maximum duration of a lease or retry delay.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// The minimum time for which a finished message answers repeats of its settlement.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(10 * 60);
/// Extensions can hold a mailbox delivery for at most this many times its visibility timeout (MBX-P-9).
pub const MAILBOX_EXTEND_FACTOR: u32 = 10;
/// Failed deliveries allowed for an inbox message if neither its sender nor its claimer sets a limit (IBX-084).
pub const INBOX_ATTEMPTS_DEFAULT: u32 = 10;
/// Failed deliveries allowed for a command, likewise.
pub const COMMANDS_ATTEMPTS_DEFAULT: u32 = 5;
/// Failed deliveries allowed for a mailbox message, likewise.
pub const MAILBOX_ATTEMPTS_DEFAULT: u32 = 16;
/// How many messages a mailbox lane may deliver past its oldest inherited delivery after a restart (MBX-G-9).
pub const MAILBOX_REORDER_MESSAGES_MAX: usize = 32;
