//! What a token can be limited to: operations of the HTTP API, and namespaces. Both lists are in alphabetical order,
//! which is also the order of their names in a caveat.

names! {
    /// An operation of the HTTP API. Endpoints for health checks and documentation need no token and are not listed.
    ApiOperation {
        /// Settle one delivery as done.
        Ack "ack",
        /// Count messages.
        CountMessages "count_messages",
        /// Extend one lease.
        Extend "extend",
        /// Show the message that holds a key.
        FindMessage "find_message",
        /// Read a key of the ledger.
        GetKey "get_key",
        /// List dead letters.
        ListDeadLetters "list_dead_letters",
        /// List messages.
        ListMessages "list_messages",
        /// List paused topics.
        ListPausedTopics "list_paused_topics",
        /// List revocations.
        ListRevocations "list_revocations",
        /// List topics.
        ListTopics "list_topics",
        /// Mark a key of the ledger as processed.
        MarkProcessed "mark_processed",
        /// Read the metrics.
        Metrics "metrics",
        /// Settle one delivery as failed.
        Nack "nack",
        /// Pause a topic.
        PauseTopic "pause_topic",
        /// Erase messages.
        PurgeMessages "purge_messages",
        /// Receive messages.
        Recv "recv",
        /// Receive messages as a stream.
        RecvStream "recv_stream",
        /// Redrive dead letters of a topic.
        RedriveDeadLetters "redrive_dead_letters",
        /// Redrive messages.
        RedriveMessages "redrive_messages",
        /// Give back a key of the ledger.
        Release "release",
        /// Send dead letters again, as new messages.
        ReprocessDeadLetters "reprocess_dead_letters",
        /// Resume a topic.
        ResumeTopic "resume_topic",
        /// Revoke a token, or all tokens of a key.
        Revoke "revoke",
        /// Send a message.
        Send "send",
        /// Send several messages.
        SendBatch "send_batch",
        /// Settle several deliveries.
        Settle "settle",
        /// Show a dead letter.
        ShowDeadLetter "show_dead_letter",
        /// Show a message.
        ShowMessage "show_message",
        /// Read the statistics.
        Stats "stats",
        /// Begin to process a key of the ledger.
        TryBegin "try_begin",
        /// Settle deliveries and receive messages in one request.
        Work "work",
    }
}

names! {
    /// A namespace of messages.
    ApiNamespace {
        /// Commands.
        Commands "commands",
        /// The inbox.
        Inbox "inbox",
        /// The ledger.
        Ledger "ledger",
        /// The mailbox.
        Mailbox "mailbox",
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiNamespace, ApiOperation};

    #[test]
    fn names_are_in_alphabetical_order() {
        let operations: Vec<_> = ApiOperation::ALL.iter().map(|operation| operation.as_str()).collect();
        assert!(operations.is_sorted_by(|one, next| one < next), "{operations:?}");
        assert!(ApiNamespace::ALL.is_sorted_by(|one, next| one.as_str() < next.as_str()));
        assert!(ApiOperation::ALL.is_sorted() && ApiNamespace::ALL.is_sorted());
        assert_eq!((ApiOperation::ALL.len(), ApiNamespace::ALL.len()), (31, 4));
    }

    #[test]
    fn names_are_exact() {
        assert_eq!(ApiOperation::from_name("recv_stream"), Some(ApiOperation::RecvStream));
        for other in ["", "Send", "send ", "sen", "healthz"] {
            assert_eq!(ApiOperation::from_name(other), None, "{other}");
        }
    }
}
