//! Paths.

/// Takes a message in.
pub const SEND: &str = "/v1/send";
/// Takes many in.
pub const SEND_BATCH: &str = "/v1/send/batch";
/// Gives messages out.
pub const RECV: &str = "/v1/recv";
/// Gives messages out, one per line, as they come.
pub const RECV_STREAM: &str = "/v1/recv/stream";
/// Acknowledges a delivery, whose name follows.
pub const ACK: &str = "/v1/ack/{delivery}";
/// Gives a delivery back, whose name follows.
pub const NACK: &str = "/v1/nack/{delivery}";
/// Gives a delivery more time, whose name follows.
pub const EXTEND: &str = "/v1/extend/{delivery}";
/// Settles many deliveries.
pub const SETTLE: &str = "/v1/settle";
/// Settles deliveries, then gives messages out.
pub const WORK: &str = "/v1/work";
/// Lists dead letters.
pub const DLQ: &str = "/v1/dlq";
/// Shows a dead letter.
pub const DLQ_SHOW: &str = "/v1/dlq/{msg_id}";
/// Redrives dead letters: gives them another chance.
pub const DLQ_REDRIVE: &str = "/v1/dlq/redrive";
/// The same, under the name that the mailbox's design has for it.
pub const DLQ_REPROCESS: &str = "/v1/dlq/reprocess";
/// Takes a lease on a key.
pub const TRY_BEGIN: &str = "/v1/inbox/try-begin";
/// The key is processed.
pub const MARK_PROCESSED: &str = "/v1/inbox/mark-processed";
/// Gives a lease on a key back.
pub const RELEASE: &str = "/v1/inbox/release";
/// What is known about a key.
pub const INBOX_KEY: &str = "/v1/inbox/{key}";
/// Lists messages.
pub const MESSAGES: &str = "/v1/messages";
/// Shows a message.
pub const MESSAGE: &str = "/v1/messages/{msg_id}";
/// Finds a message by its key.
pub const MESSAGE_BY_KEY: &str = "/v1/messages/by-key";
/// Gives Dead messages another chance.
pub const REDRIVE: &str = "/v1/messages/redrive";
/// Erases messages.
pub const PURGE: &str = "/v1/messages/purge";
/// Counts messages.
pub const COUNTS: &str = "/v1/counts";
/// Lists topics, and how they stand.
pub const TOPICS: &str = "/v1/admin/topics";
/// Tells how the server and its store stand.
pub const STATS: &str = "/v1/stats";
/// Whether the process lives.
pub const HEALTHZ: &str = "/healthz";
/// Whether it can work, and what is missing.
pub const READYZ: &str = "/readyz";
/// Whether the process lives, as the ledger's design calls it.
pub const HEALTH_LIVE: &str = "/health/live";
/// Whether it can work, as the ledger's design calls it.
pub const HEALTH_READY: &str = "/health/ready";
/// Metrics as Prometheus reads them.
pub const METRICS: &str = "/metrics";
/// The description of all this for programs.
pub const OPENAPI: &str = "/openapi.json";
/// The same for people.
pub const DOCS: &str = "/docs";
