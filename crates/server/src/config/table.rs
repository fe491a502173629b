//! Every setting, once. Parsing, suggestions, the reference and the example all come from here; the defaults are
//! those of the fields.

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

/// What every section is for.
pub(super) static SECTIONS: &[(&str, &str)] = &[
    ("", "The server"),
    (
        "admin",
        "A listener of its own for operators, health and metrics, which answers also when all connections of `listen` are in use",
    ),
    ("log", "The log"),
    ("http", "The bounds of the HTTP door"),
    ("mailbox", "The mailbox"),
    ("mailbox.topic", "The topics of the mailbox, unless `[mailbox.topics.NAME]` says otherwise for one"),
    ("ledger", "The ledger"),
    (
        "retention",
        "How long what ended badly or was only seen is kept, but for the mailbox, whose topics say it",
    ),
    ("metrics", "The metrics"),
    ("shutdown", "How the server stops"),
];

/// Every setting, in the order in which they are shown.
pub(super) static SETTINGS: &[Setting] = &[
    setting!(
        listen,
        Kind::Listen(1),
        "Where the server listens: `IP:PORT`, `localhost:PORT`, `unix:/path`. Loopback addresses and sockets only, until there are capabilities"
    ),
    setting!(
        profile,
        Kind::Word(Profile::WORDS),
        "What the server is deployed as. A `micronode` has amnesia unless `amnesia` says otherwise"
    ),
    setting!(
        amnesia,
        Kind::Flag,
        "Keeps nothing on disk: all messages, dead letters too, go with the process. Overwrites memory before it is freed. On a `micronode` the default is `true`"
    ),
    setting!(store, Kind::Store, "Where messages are kept. With amnesia the default is `memory:`"),
    setting!(
        admin.listen,
        Kind::Listen(0),
        "Where operators, health and metrics are answered beside `listen`: as there, or `off`"
    ),
    setting!(admin.connections_max, Kind::Count(1, 100_000), "Connections at once"),
    setting!(
        log.format,
        Kind::Word(LogFormat::WORDS),
        "How a line looks; `auto` is `pretty` on a terminal, else `json`"
    ),
    setting!(
        log.level,
        Kind::Levels,
        "`off`, `error`, `warn`, `info`, `debug` or `trace`, and after commas levels by target, as in `info,oncebox=debug`"
    ),
    setting!(
        http.connections_max,
        Kind::Count(1, 100_000),
        "Connections at once; beyond, the one that has been idle the longest is closed for a new one"
    ),
    setting!(
        http.header_timeout,
        Kind::Duration(MILLI, HOUR),
        "How long the head of a request may take to come, and the first one after the connection was opened"
    ),
    setting!(http.body_timeout, Kind::Duration(MILLI, HOUR), "How long its body may take"),
    setting!(
        http.write_timeout,
        Kind::Duration(MILLI, HOUR),
        "How long a client may take to read an answer, or the next 64 KiB of it"
    ),
    setting!(
        http.idle_timeout,
        Kind::Duration(MILLI, HOUR),
        "How long a connection stays open without a request"
    ),
    setting!(http.body_bytes_max, Kind::Size(KIB, 256 * MIB), "The largest body of a call with one message"),
    setting!(
        http.batch_bytes_max,
        Kind::Size(KIB, 256 * MIB),
        "The largest body of a call with many messages"
    ),
    setting!(
        http.bodies_bytes_max,
        Kind::Size(KIB, 64 * GIB),
        "All bodies that are being read at once, together"
    ),
    setting!(http.wait_max, Kind::Duration(MILLI, HOUR), "The longest that a call may wait for messages"),
    setting!(http.batch_items_max, Kind::Count(1, 10_000), "Items in one call"),
    setting!(
        mailbox.shards,
        Kind::Count(1, 1_024),
        "Slices of each topic, each with its own order. Do not change it while messages wait"
    ),
    setting!(
        mailbox.shard_capacity,
        Kind::Count(1, 10_000_000),
        "Unfinished messages in a shard; beyond, the answer is 429"
    ),
    setting!(
        mailbox.global_in_flight,
        Kind::Count(1, 10_000_000),
        "Messages that receivers hold at once, over all topics; beyond, the answer is 429"
    ),
    setting!(
        mailbox.visibility_min,
        Kind::Duration(MILLI, DAY),
        "The shortest visibility that a receiver may ask for"
    ),
    setting!(
        mailbox.visibility_default,
        Kind::Duration(MILLI, DAY),
        "The visibility of a receiver that asks for none, of topics that have none of their own"
    ),
    setting!(
        mailbox.messages_default,
        Kind::Count(1, 256),
        "Messages that one call receives, if it does not say"
    ),
    setting!(
        mailbox.bytes_default,
        Kind::Size(1, 256 * MIB),
        "Payload bytes that one call receives, if it does not say"
    ),
    setting!(
        mailbox.topic.attempts_max,
        Kind::Count(1, 1_000),
        "Deliveries of a message; then it is a dead letter. It keeps the limit that it was sent with"
    ),
    setting!(
        mailbox.topic.backoff_base,
        Kind::Duration(MILLI, DAY),
        "What the delay of a message that was not acknowledged grows from: it is drawn from 1ms up to twice this after the first delivery, and up to twice as much after each further one"
    ),
    setting!(mailbox.topic.backoff_max, Kind::Duration(MILLI, DAY), "The longest such delay"),
    setting!(
        mailbox.topic.visibility_default,
        Kind::Own(MILLI, DAY),
        "The visibility of a receiver that asks for none; `default` is `mailbox.visibility_default`"
    ),
    setting!(
        mailbox.topic.replay_window,
        Kind::Duration(MILLI, YEAR),
        "How long a repeated idempotency key is known as such, from acceptance"
    ),
    setting!(
        mailbox.topic.key_hold,
        Kind::Word(KEY_HOLDS),
        "What holds a key: `window`, the replay window and nothing else, so that a message that waits longer can be sent a second time; or `until-finished`, also its message, until that is acknowledged or a dead letter"
    ),
    setting!(
        mailbox.topic.ready_keep,
        Kind::Duration(SECOND, YEAR),
        "How long a message may wait, from when it is due; then it is a dead letter"
    ),
    setting!(mailbox.topic.payload_bytes_max, Kind::Size(1, MIB), "The largest payload"),
    setting!(
        mailbox.topic.dlq_keep,
        Kind::Duration(HOUR, YEAR),
        "How long a dead letter is kept, from when it died"
    ),
    setting!(
        mailbox.topic.dlq_messages_max,
        Kind::Count(1, 10_000_000),
        "Dead letters that are kept, the newest; those of the last ten minutes stay beside them"
    ),
    setting!(
        mailbox.topic.dlq_alert_per_minute,
        Kind::Count(0, 1_000_000),
        "More dead letters than this within a minute are a finding of `/readyz` and `/v1/stats`, and a line in the log; 0 turns that off"
    ),
    setting!(ledger.keep, Kind::Duration(KEEP_MIN, KEEP_MAX), "How long a processed key is kept"),
    setting!(
        ledger.unknown_key,
        Kind::Word(UnknownKey::WORDS),
        "The answer for a key that nobody has told of: 200 with status `Unknown`, or 404"
    ),
    setting!(
        retention.seen,
        Kind::Keep(HOUR, YEAR),
        "What was seen and never enqueued, and keys of the ledger that were begun and never marked, from when they came; `off` keeps them for ever"
    ),
    setting!(
        retention.dead,
        Kind::Keep(HOUR, YEAR),
        "What is Dead in the inbox and among the commands, from when it died; `off` keeps it for ever"
    ),
    setting!(
        metrics.topics_max,
        Kind::Count(0, 1_000),
        "Topics with a label of their own; those beyond are labelled `other`"
    ),
    setting!(
        shutdown.drain,
        Kind::Duration(SECOND, MINUTE.saturating_mul(10)),
        "How long calls that are under way may take to end"
    ),
];

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::field::Value;
    use crate::config::sections::Config;

    /// A bound that the field cannot hold would be lost without a word.
    #[test]
    fn every_field_holds_all_that_its_kind_allows() {
        for setting in SETTINGS {
            let values = match setting.kind {
                Kind::Flag => vec![Value::Flag(true), Value::Flag(false)],
                Kind::Count(least, most) | Kind::Size(least, most) => {
                    vec![Value::Number(least), Value::Number(most)]
                }
                Kind::Duration(least, most) => vec![Value::Duration(least), Value::Duration(most)],
                Kind::Keep(least, most) | Kind::Own(least, most) => {
                    vec![Value::Keep(Some(least)), Value::Keep(None), Value::Keep(Some(most))]
                }
                Kind::Word(words) => words.iter().map(|word| Value::Text((*word).to_owned())).collect(),
                Kind::Levels | Kind::Store => vec![Value::Text("x".to_owned())],
                Kind::Listen(_) => vec![Value::Listen(Vec::new())],
            };
            let mut config = Config::default();
            for value in values {
                (setting.set)(&mut config, value.clone());
                assert_eq!((setting.get)(&config), value, "{}", setting.name);
            }
        }
    }

    /// In a file a section that comes twice is a fault.
    #[test]
    fn settings_stand_together_by_section() {
        let mut sections: Vec<&str> = SETTINGS.iter().map(|setting| setting.parts().0).collect();
        sections.dedup();
        assert_eq!(sections, SECTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
