//! The names of metrics. Those without the prefix `oncebox_` are the design's own (MBX-I-10, MBX-C-5).

oncebox::metric_names! {
    /// Requests, by `route`, `method` and `status`.
    counter REQUESTS = "oncebox_http_requests_total";
    /// Seconds from a request's head to its answer's, by `route`. Waiting for messages counts.
    histogram REQUEST_SECONDS = "oncebox_request_latency_seconds";
    /// Open connections.
    gauge CONNECTIONS = "oncebox_http_connections";
    /// Connections that the server closed, by `reason`: `idle`, `header`, `write` (time-outs), `limit` (for a new one).
    counter CONNECTIONS_CLOSED = "oncebox_http_connections_closed_total";
    /// Requests and items that were refused, by `reason`.
    counter REJECTED = "rejected_total";
    /// Seconds to take a message in, or a batch.
    histogram ENQUEUE_SECONDS = "oncebox_enqueue_latency_seconds";
    /// Seconds to give messages out; waiting for them does not count.
    histogram DEQUEUE_SECONDS = "oncebox_dequeue_latency_seconds";
    /// Seconds to settle deliveries.
    histogram ACK_SECONDS = "oncebox_ack_latency_seconds";
    /// Messages taken in, by `topic`; duplicates do not count.
    counter ENQUEUED = "oncebox_mailbox_enqueued_total";
    /// Messages that came before, by `topic`.
    counter DUPLICATES = "oncebox_mailbox_duplicates_total";
    /// Messages given out, by `topic`.
    counter DELIVERED = "oncebox_mailbox_delivered_total";
    /// Messages given out for the second time or more, by `topic`.
    counter REDELIVERED = "oncebox_mailbox_redelivered_total";
    /// Deliveries that were settled, by `outcome`: `ack`, `nack`, `extend`, `dead`, `lost`, `receipt`.
    counter SETTLED = "oncebox_mailbox_settled_total";
    /// Messages that are ready or waiting, by `topic` and `shard`.
    gauge QUEUE_DEPTH = "queue_depth";
    /// Messages that receivers hold, by `topic` and `shard`.
    gauge IN_FLIGHT = "inflight";
    /// How full a shard is, 0 to 1, by `topic` and `shard`.
    gauge SATURATION = "saturation";
    /// Seconds since the first message that can be delivered now was accepted, by `topic`; 0 if there is none.
    gauge OLDEST_SECONDS = "oncebox_oldest_ready_seconds";
    /// Dead letters, by `topic`.
    gauge DLQ_DEPTH = "oncebox_mailbox_dlq_depth";
    /// Messages that became dead letters, by `topic` and `reason`.
    counter DLQ = "dlq_total";
    /// Dead letters that were over the retention of their topic, and are gone.
    counter DLQ_FORGOTTEN = "oncebox_mailbox_dlq_forgotten_total";
    /// How long a message may be in a `stage` (`ready`, `inflight`, `dlq`), by `topic`; the empty topic is any without settings of its own.
    gauge RETENTION_SECONDS = "oncebox_mailbox_retention_seconds";
    /// How many messages may be in a `stage`, by `topic`, likewise.
    gauge RETENTION_MESSAGES = "oncebox_mailbox_retention_messages";
    /// Dead letters that were redriven.
    counter DLQ_REDRIVEN = "oncebox_mailbox_dlq_redrive_total";
    /// The same as `oncebox_mailbox_dlq_redrive_total`, under its earlier name.
    counter DLQ_REPROCESSED = "oncebox_mailbox_dlq_reprocess_total";
    /// Dead letters that were redriven by a rule; `oncebox_mailbox_dlq_redrive_total` counts them too.
    counter RULE_REDRIVEN = "oncebox_mailbox_dlq_rule_redrive_total";
    /// Steps of rules that failed.
    counter RULE_FAILED = "oncebox_mailbox_dlq_rule_failed_total";
    /// 1, with the label `dlq_profile`: `durable` or `ephemeral`.
    gauge PROFILE = "oncebox_mailbox_profile_info";
    /// 1, or 0 while the store does not answer: then what it would have to say is `NaN`.
    gauge STORE_UP = "oncebox_store_up";
    /// How much of a bound of the store is used, 0 to 1, by `bound`.
    gauge BOUND = "oncebox_store_bound_used_ratio";
    /// The most messages that a shard of any topic gave out past its oldest delivery from before a restart, since the server was
    /// started, by `shard`; `other` is those beyond the number of shards.
    gauge REORDER_DEPTH = "reorder_depth_max";
}
