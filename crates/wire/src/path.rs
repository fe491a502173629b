//! Paths of the server's endpoints.

/// Sends a message.
pub const SEND: &str = "/v1/send";
/// Sends a batch of messages.
pub const SEND_BATCH: &str = "/v1/queues/mailbox/send";
/// Receives messages.
pub const RECV: &str = "/v1/recv";
/// Receives messages as a stream, one per line.
pub const RECV_STREAM: &str = "/v1/recv/stream";
/// Acknowledges a delivery.
pub const ACK: &str = "/v1/ack/{delivery}";
/// Negatively acknowledges a delivery.
pub const NACK: &str = "/v1/nack/{delivery}";
/// Extends the visibility timeout of a delivery.
pub const EXTEND: &str = "/v1/extend/{delivery}";
/// Settles a batch of deliveries.
pub const SETTLE: &str = "/v1/settle";
/// Settles deliveries, then receives messages.
pub const WORK: &str = "/v1/work";
/// Lists dead letters.
pub const DLQ: &str = "/v1/dlq";
/// Shows a dead letter.
pub const DLQ_SHOW: &str = "/v1/dlq/{msg_id}";
/// Redrives dead letters.
pub const DLQ_REDRIVE: &str = "/v1/dlq/redrive";
/// Redrives dead letters; an alias, see `docs/reference/requirements/mailbox.md`.
pub const DLQ_REPROCESS: &str = "/v1/dlq/reprocess";
/// Acquires a lease on a key.
pub const TRY_BEGIN: &str = "/v1/inbox/try-begin";
/// Marks a key as processed.
pub const MARK_PROCESSED: &str = "/v1/inbox/mark-processed";
/// Releases a lease on a key.
pub const RELEASE: &str = "/v1/inbox/release";
/// Shows the state of a key.
pub const INBOX_KEY: &str = "/v1/inbox/{key}";
/// Lists messages.
pub const MESSAGES: &str = "/v1/admin/messages";
/// Shows a message.
pub const MESSAGE: &str = "/v1/admin/messages/{msg_id}";
/// Finds a message by its key.
pub const MESSAGE_BY_KEY: &str = "/v1/admin/messages/by-key";
/// Redrives Dead messages.
pub const REDRIVE: &str = "/v1/admin/messages/redrive";
/// Erases messages.
pub const PURGE: &str = "/v1/admin/messages/purge";
/// Counts messages.
pub const COUNTS: &str = "/v1/admin/counts";
/// Lists topics with their counts.
pub const TOPICS: &str = "/v1/admin/topics";
/// Lists paused topics.
pub const PAUSED_TOPICS: &str = "/v1/admin/topics/paused";
/// Pauses a topic.
pub const PAUSE_TOPIC: &str = "/v1/admin/topics/pause";
/// Resumes a topic.
pub const RESUME_TOPIC: &str = "/v1/admin/topics/resume";
/// Lists and makes revocations of tokens.
pub const REVOCATIONS: &str = "/v1/admin/revocations";
/// Shows server and store statistics.
pub const STATS: &str = "/v1/admin/stats";
/// Liveness.
pub const HEALTHZ: &str = "/healthz";
/// Readiness.
pub const READYZ: &str = "/readyz";
/// Liveness; an alias, see `docs/reference/requirements/ledger.md`.
pub const HEALTH_LIVE: &str = "/health/live";
/// Readiness; an alias, see `docs/reference/requirements/ledger.md`.
pub const HEALTH_READY: &str = "/health/ready";
/// Metrics in the Prometheus text format.
pub const METRICS: &str = "/metrics";
/// OpenAPI document of the API.
pub const OPENAPI: &str = "/openapi.json";
/// API documentation for people.
pub const DOCS: &str = "/docs";
