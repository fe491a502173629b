//! The table of all settings. Parsing, suggestions, the reference and the example file are derived from it; the
//! defaults are those of the fields.

use std::time::Duration;

use oncebox::ledger::{KEEP_MAX, KEEP_MIN};

use super::field::KEY_HOLDS;
use super::kind::Kind;
use super::sections::{LogFormat, Profile, UnknownKey};
use super::setting::{Setting, setting};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Title of each section.
pub(super) static SECTIONS: &[(&str, &str)] = &[
    ("", "The server"),
    (
        "admin",
        "Separate listener for operator, health and metrics requests, which stays reachable when all connections of `listen` are in use",
    ),
    ("log", "The log"),
    ("auth", "Access control: see `docs/guide/securing-the-server.md`"),
    ("tls", "TLS of all listeners but unix sockets; SIGHUP reads the files again"),
    ("http", "Limits and timeouts of the HTTP API"),
    ("mailbox", "The mailbox"),
    (
        "mailbox.topic",
        "Settings of all mailbox topics, unless `[mailbox.topics.NAME]` overrides them for a topic",
    ),
    ("ledger", "The ledger"),
    (
        "retention",
        "Retention of dead and of seen messages, except in the mailbox, which has settings per topic",
    ),
    ("metrics", "The metrics"),
    ("shutdown", "Shutdown"),
];

/// All settings, in the order in which they are shown.
pub(super) static SETTINGS: &[Setting] = &[
    setting!(
        listen,
        Kind::Listen(1),
        "Addresses to listen on: `IP:PORT`, `localhost:PORT` or `unix:/path`. An address that other machines can reach needs `auth.key_file`, `tls.certificate_file` and `tls.key_file`"
    ),
    setting!(
        profile,
        Kind::Choice(Profile::CHOICES),
        "Deployment profile. A `micronode` has amnesia unless `amnesia` is set to `false`"
    ),
    setting!(
        amnesia,
        Kind::Bool,
        "Keep nothing on disk: all messages, including dead letters, are lost when the process ends. Memory is overwritten before it is freed. On a `micronode` the default is `true`"
    ),
    setting!(
        store,
        Kind::Store,
        "URL of the store that keeps the messages. With amnesia the default is `memory:`"
    ),
    setting!(
        admin.listen,
        Kind::Listen(0),
        "Addresses for operator, health and metrics requests, in addition to `listen`, or `off`"
    ),
    setting!(admin.connections_max, Kind::Count(1, 100_000), "Maximum number of concurrent connections"),
    setting!(
        log.format,
        Kind::Choice(LogFormat::CHOICES),
        "Format of log lines; `auto` is `pretty` on a terminal and `json` otherwise"
    ),
    setting!(
        log.level,
        Kind::LogLevels,
        "Log level: `off`, `error`, `warn`, `info`, `debug` or `trace`, optionally followed by levels of single targets, such as `info,oncebox=debug`"
    ),
    setting!(
        auth.key_file,
        Kind::FileOrOff,
        "File with the root keys of tokens, which only its owner may read; SIGHUP reads it again. With it, every request needs a token; without it, every client on this machine has full access"
    ),
    setting!(
        auth.cap_cache_ttl,
        Kind::Duration(SECOND.saturating_mul(5), MINUTE.saturating_mul(2)),
        "Maximum age of the known revocations: a revocation on another server of the same store applies within this time. If they cannot be read for longer, requests with tokens are rejected with 503"
    ),
    setting!(
        auth.clock_tolerance,
        Kind::Duration(Duration::ZERO, MINUTE.saturating_mul(2)),
        "Maximum difference of the clocks of servers, in whole seconds: a token is valid for this long before it begins and after it ends"
    ),
    setting!(
        tls.certificate_file,
        Kind::FileOrOff,
        "Certificate of the server and its chain, in PEM format; `off` means no TLS"
    ),
    setting!(
        tls.key_file,
        Kind::FileOrOff,
        "Private key of the certificate, in PEM format; only its owner may read it"
    ),
    setting!(
        tls.client_ca_file,
        Kind::FileOrOff,
        "Certificate authorities of clients, in PEM format: every client needs a certificate of one of them; `off` demands none"
    ),
    setting!(
        http.connections_max,
        Kind::Count(1, 100_000),
        "Maximum number of concurrent connections; beyond it, each new connection closes the one that was idle the longest"
    ),
    setting!(
        http.header_timeout,
        Kind::Duration(MILLI, HOUR),
        "Maximum time to receive a request head; for the first one, from when the connection was opened"
    ),
    setting!(http.body_timeout, Kind::Duration(MILLI, HOUR), "Maximum time to receive a request body"),
    setting!(
        http.write_timeout,
        Kind::Duration(MILLI, HOUR),
        "Maximum time for a client to read a response, or the next 64 KiB of it"
    ),
    setting!(
        http.idle_timeout,
        Kind::Duration(MILLI, HOUR),
        "Maximum time that a connection stays open without a request"
    ),
    setting!(
        http.body_bytes_max,
        Kind::Size(KIB, 256 * MIB),
        "Maximum body size of a request with a single message"
    ),
    setting!(http.batch_bytes_max, Kind::Size(KIB, 256 * MIB), "Maximum body size of a batch request"),
    setting!(
        http.bodies_bytes_max,
        Kind::Size(KIB, 64 * GIB),
        "Maximum total size of the request bodies that are processed at the same time"
    ),
    setting!(http.wait_max, Kind::Duration(MILLI, HOUR), "Maximum time that a request may wait for messages"),
    setting!(http.batch_items_max, Kind::Count(1, 10_000), "Maximum number of items in a batch request"),
    setting!(
        mailbox.shards,
        Kind::Count(1, 1_024),
        "Number of shards of each topic; messages are ordered within a shard. Do not change it while messages are waiting"
    ),
    setting!(
        mailbox.shard_capacity,
        Kind::Count(1, 10_000_000),
        "Maximum number of unfinished messages in a shard; beyond it, sends are rejected with 429"
    ),
    setting!(
        mailbox.global_in_flight,
        Kind::Count(1, 10_000_000),
        "Maximum number of messages in flight over all topics; beyond it, receives are rejected with 429"
    ),
    setting!(
        mailbox.visibility_min,
        Kind::Duration(MILLI, DAY),
        "Minimum visibility timeout that a receiver may request"
    ),
    setting!(
        mailbox.visibility_default,
        Kind::Duration(MILLI, DAY),
        "Visibility timeout used when the receiver gives none and the topic has none of its own"
    ),
    setting!(
        mailbox.messages_default,
        Kind::Count(1, 256),
        "Maximum number of messages per receive, if the request does not set one"
    ),
    setting!(
        mailbox.bytes_default,
        Kind::Size(1, 256 * MIB),
        "Maximum payload bytes per receive, if the request does not set a limit"
    ),
    setting!(
        mailbox.topic.attempts_max,
        Kind::Count(1, 1_000),
        "Maximum number of deliveries of a message; after that it becomes a dead letter. A message keeps the limit in effect when it was sent"
    ),
    setting!(
        mailbox.topic.backoff_base,
        Kind::Duration(MILLI, DAY),
        "Base of the retry backoff: after the first delivery, the delay is chosen at random between 1ms and twice this value; the upper end doubles with each further delivery"
    ),
    setting!(mailbox.topic.backoff_max, Kind::Duration(MILLI, DAY), "Maximum retry backoff"),
    setting!(
        mailbox.topic.visibility_default,
        Kind::DurationOrDefault(MILLI, DAY),
        "Visibility timeout used when the receiver gives none; `default` stands for `mailbox.visibility_default`"
    ),
    setting!(
        mailbox.topic.replay_window,
        Kind::Duration(MILLI, YEAR),
        "How long a repeated idempotency key is recognized as a duplicate, from when the message was accepted"
    ),
    setting!(
        mailbox.topic.key_hold,
        Kind::Choice(KEY_HOLDS),
        "How long a key is held: `window` for the replay window only, so that a message that waits longer can be sent a second time; `until-finished` also until its message is acknowledged or becomes a dead letter"
    ),
    setting!(
        mailbox.topic.ready_keep,
        Kind::Duration(SECOND, YEAR),
        "Maximum time that a message may wait for delivery, from when it is due; after that it becomes a dead letter"
    ),
    setting!(mailbox.topic.payload_bytes_max, Kind::Size(1, MIB), "Maximum payload size"),
    setting!(
        mailbox.topic.dlq_keep,
        Kind::Duration(HOUR, YEAR),
        "How long a dead letter is kept, from when it died"
    ),
    setting!(
        mailbox.topic.dlq_messages_max,
        Kind::Count(1, 10_000_000),
        "Maximum number of dead letters that are kept; the oldest are removed first, and dead letters of the last ten minutes are kept in addition"
    ),
    setting!(
        mailbox.topic.dlq_alert_per_minute,
        Kind::Count(0, 1_000_000),
        "More dead letters than this within a minute are reported as a finding in `/readyz` and `/v1/admin/stats`, and in the log; 0 disables this"
    ),
    setting!(
        mailbox.topic.dlq_pause_per_minute,
        Kind::Count(0, 1_000_000),
        "More dead letters than this within a minute pause the delivery of the topic, until `oncebox resume`; 0 disables this"
    ),
    setting!(ledger.keep, Kind::Duration(KEEP_MIN, KEEP_MAX), "How long a processed key is kept"),
    setting!(
        ledger.unknown_key,
        Kind::Choice(UnknownKey::CHOICES),
        "Response for an unknown key: 200 with the status `Unknown`, or 404"
    ),
    setting!(
        retention.seen,
        Kind::DurationOrOff(HOUR, YEAR),
        "How long messages that were seen and never enqueued, and ledger keys that were begun and never marked as processed, are kept, from when they were first seen; `off` keeps them for ever"
    ),
    setting!(
        retention.dead,
        Kind::DurationOrOff(HOUR, YEAR),
        "How long dead messages of the inbox and the commands are kept, from when they died; `off` keeps them for ever"
    ),
    setting!(
        metrics.topics_max,
        Kind::Count(0, 1_000),
        "Maximum number of topics with a label of their own; other topics are labelled `other`"
    ),
    setting!(
        shutdown.drain,
        Kind::Duration(SECOND, MINUTE.saturating_mul(10)),
        "Maximum time for requests in progress to finish"
    ),
];

/// Finds a setting by its name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::field::Value;
    use crate::config::sections::Config;

    /// A value that the field cannot store would be ignored silently.
    #[test]
    fn every_field_can_store_all_values_of_its_kind() {
        for setting in SETTINGS {
            let values = match setting.kind {
                Kind::Bool => vec![Value::Bool(true), Value::Bool(false)],
                Kind::Count(min, max) | Kind::Size(min, max) => {
                    vec![Value::Number(min), Value::Number(max)]
                }
                Kind::Duration(min, max) => vec![Value::Duration(min), Value::Duration(max)],
                Kind::DurationOrOff(min, max) | Kind::DurationOrDefault(min, max) => {
                    vec![
                        Value::OptionalDuration(Some(min)),
                        Value::OptionalDuration(None),
                        Value::OptionalDuration(Some(max)),
                    ]
                }
                Kind::Choice(choices) => {
                    choices.iter().map(|choice| Value::Text((*choice).to_owned())).collect()
                }
                Kind::FileOrOff => vec![Value::File(Some("x".into())), Value::File(None)],
                Kind::LogLevels | Kind::Store => vec![Value::Text("x".to_owned())],
                Kind::Listen(_) => vec![Value::Listen(Vec::new())],
            };
            let mut config = Config::default();
            for value in values {
                (setting.set)(&mut config, value.clone());
                assert_eq!((setting.get)(&config), value, "{}", setting.name);
            }
        }
    }

    /// A TOML file must not contain a section twice.
    #[test]
    fn settings_are_grouped_by_section() {
        let mut sections: Vec<&str> = SETTINGS.iter().map(|setting| setting.parts().0).collect();
        sections.dedup();
        assert_eq!(sections, SECTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
