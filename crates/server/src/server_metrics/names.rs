//! Metric names and help texts. Names without the prefix `oncebox_` are prescribed by the mailbox requirements
//! (MBX-I-10, MBX-C-5).

oncebox::metric_names! {
    /// HTTP requests, by `route`, `method` and `status`.
    counter REQUESTS = "oncebox_http_requests_total";
    /// Seconds from receiving a request head to sending the response head, by `route`. Includes waiting for messages.
    histogram REQUEST_SECONDS = "oncebox_request_latency_seconds";
    /// Open HTTP connections.
    gauge CONNECTIONS = "oncebox_http_connections";
    /// Connections closed by the server, by `reason`: `idle`, `header`, `write` (timeouts), `limit` (closed in favour
    /// of a new connection).
    counter CONNECTIONS_CLOSED = "oncebox_http_connections_closed_total";
    /// Rejected requests and batch items, by `reason`.
    counter REJECTED = "rejected_total";
    /// Seconds to accept a message or a batch.
    histogram ENQUEUE_SECONDS = "oncebox_enqueue_latency_seconds";
    /// Seconds to deliver messages, without waiting for them.
    histogram DEQUEUE_SECONDS = "oncebox_dequeue_latency_seconds";
    /// Seconds to settle deliveries.
    histogram ACK_SECONDS = "oncebox_ack_latency_seconds";
    /// Accepted messages, by `topic`, without duplicates.
    counter ENQUEUED = "oncebox_mailbox_enqueued_total";
    /// Duplicate messages, by `topic`.
    counter DUPLICATES = "oncebox_mailbox_duplicates_total";
    /// Delivered messages, by `topic`.
    counter DELIVERED = "oncebox_mailbox_delivered_total";
    /// Messages delivered for the second time or later, by `topic`.
    counter REDELIVERED = "oncebox_mailbox_redelivered_total";
    /// Settled deliveries, by `outcome`: `ack`, `nack`, `extend`, `dead`, `lost`, `receipt`.
    counter SETTLED = "oncebox_mailbox_settled_total";
    /// Messages that are ready or waiting, by `topic` and `shard`.
    gauge QUEUE_DEPTH = "queue_depth";
    /// Messages in flight, by `topic` and `shard`.
    gauge IN_FLIGHT = "inflight";
    /// Used share of the capacity of a shard, 0 to 1, by `topic` and `shard`.
    gauge SATURATION = "saturation";
    /// Seconds since the oldest deliverable message was accepted, by `topic`; 0 if there is none.
    gauge OLDEST_SECONDS = "oncebox_oldest_ready_seconds";
    /// Dead letters, by `topic`.
    gauge DLQ_DEPTH = "oncebox_mailbox_dlq_depth";
    /// Messages that became dead letters, by `topic` and `reason`.
    counter DLQ = "dlq_total";
    /// Dead letters removed because they exceeded the retention of their topic.
    counter DLQ_FORGOTTEN = "oncebox_mailbox_dlq_forgotten_total";
    /// Maximum time that a message stays in a `stage` (`ready`, `inflight`, `dlq`), by `topic`; the empty topic stands
    /// for topics without settings of their own.
    gauge RETENTION_SECONDS = "oncebox_mailbox_retention_seconds";
    /// Maximum number of messages in a `stage` (`ready`, `inflight`, `dlq`), by `topic`; the empty topic stands for
    /// topics without settings of their own.
    gauge RETENTION_MESSAGES = "oncebox_mailbox_retention_messages";
    /// Redriven dead letters.
    counter DLQ_REDRIVEN = "oncebox_mailbox_dlq_redrive_total";
    /// Same as `oncebox_mailbox_dlq_redrive_total`, under its earlier name.
    counter DLQ_REPROCESSED = "oncebox_mailbox_dlq_reprocess_total";
    /// Dead letters redriven by a rule; also counted in `oncebox_mailbox_dlq_redrive_total`.
    counter RULE_REDRIVEN = "oncebox_mailbox_dlq_rule_redrive_total";
    /// Failed steps of redrive rules.
    counter RULE_FAILED = "oncebox_mailbox_dlq_rule_failed_total";
    /// Always 1; the label `dlq_profile` is `durable` or `ephemeral`.
    gauge PROFILE = "oncebox_mailbox_profile_info";
    /// Paused topics, by `namespace` and by what is paused (`pause`): `sending`, `receiving`, `both`.
    gauge PAUSED_TOPICS = "oncebox_paused_topics";
    /// 1, or 0 while the store does not answer; metrics read from the store are `NaN` then.
    gauge STORE_UP = "oncebox_store_up";
    /// Used share of a bound of the store, 0 to 1, by `bound`.
    gauge BOUND = "oncebox_store_bound_used_ratio";
    /// Maximum number of messages that a shard of any topic delivered ahead of its oldest delivery from before a
    /// restart, since the server started, by `shard`; `other` stands for shards beyond the configured number.
    gauge REORDER_DEPTH = "reorder_depth_max";
}
