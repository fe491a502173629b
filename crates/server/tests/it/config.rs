//! The configuration: sources, origins, errors, profiles, and generated pages.

mod arbitrary;
mod pages;
mod problems;

use oncebox::mailbox::MailboxSettings;
use oncebox_server::config::{Config, ListenAddress, Loaded, Origin, Problems, Profile, Sources, load};

fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let mut sources = Sources::default();
    sources.file = Some(("oncebox.toml".into(), file.to_owned()));
    sources.environment = owned(environment);
    sources.flags = owned(flags);
    sources
}

fn read(file: &str) -> Result<Loaded, Problems> {
    load(&sources(file, &[], &[]))
}

/// Holds: MBX-C-12, MBX-I-15.
#[test]
fn revocations_are_at_most_30_seconds_old_or_5_to_120() {
    let seconds = |file: &str| read(file).map(|loaded| loaded.config.auth.cap_cache_ttl.as_secs());
    assert_eq!(seconds("").unwrap(), 30);
    for (ttl, expected) in [("5s", Some(5)), ("2m", Some(120)), ("4s", None), ("121s", None)] {
        assert_eq!(seconds(&format!("auth.cap_cache_ttl = '{ttl}'")).ok(), expected, "{ttl}");
    }
}

/// Holds: MBX-C-12, MBX-P-9, IBX-099, RULE-20.
#[test]
fn empty_sources_yield_the_defaults() {
    let loaded = load(&Sources::default()).unwrap();
    let config = loaded.config;
    assert_eq!(config, Config::default());
    assert_eq!(config.mailbox, MailboxSettings::default());
    assert_eq!(config.listen.iter().map(ListenAddress::to_string).collect::<Vec<_>>(), ["127.0.0.1:7420"]);
    assert_eq!((config.profile, config.amnesia), (Profile::Macronode, false));
    assert_eq!(config.store, "embedded:./oncebox-data");
    let days = |duration: std::time::Duration| duration.as_secs() / 86_400;
    assert_eq!(
        (config.retention.seen, config.retention.dead),
        (None, None),
        "the inbox removes nothing by default"
    );
    let topic = &config.mailbox.topic;
    let kept = (days(topic.ready_keep), days(topic.dlq_keep), topic.dlq_messages_max);
    assert_eq!((kept, days(config.ledger.keep)), ((7, 14, 10_000), 7));
    assert_eq!(loaded.warnings, [""; 0]);
}

#[test]
fn the_later_source_wins_and_is_recorded_as_the_origin() {
    let file = "[mailbox]\nshards = 1\ntopic.attempts_max = 7\nmessages_default = 3\n";
    let environment =
        [("oncebox__Mailbox__SHARDS", "2"), ("ONCEBOX__MAILBOX__TOPIC__ATTEMPTS_MAX", "8"), ("PATH", "x")];
    let loaded =
        load(&sources(file, &environment, &[("mailbox.shards", "3"), ("mailbox.shards", "4")])).unwrap();
    let mailbox = &loaded.config.mailbox;
    assert_eq!((mailbox.shards, mailbox.topic.attempts_max, mailbox.messages_default), (4, 8, 3));
    for (name, origin) in [
        ("mailbox.shards", Origin::Flag),
        ("mailbox.topic.attempts_max", Origin::Variable("ONCEBOX__MAILBOX__TOPIC__ATTEMPTS_MAX".to_owned())),
        ("mailbox.messages_default", Origin::File { path: "oncebox.toml".into(), line: 4 }),
        ("mailbox.topic.backoff_max", Origin::Default),
    ] {
        assert_eq!(loaded.origins.of(name), origin, "{name}");
    }
}

#[test]
fn every_source_can_set_lists() {
    let expected = ["127.0.0.1:7420", "unix:/tmp/x.sock"];
    let shown =
        |loaded: Loaded| loaded.config.listen.iter().map(ListenAddress::to_string).collect::<Vec<_>>();
    let file = "listen = [\"localhost:7420\", 'unix:/tmp/x.sock']";
    assert_eq!(shown(read(file).unwrap()), expected);
    let text = "127.0.0.1:7420, unix:/tmp/x.sock";
    assert_eq!(shown(load(&sources("", &[("ONCEBOX__LISTEN", text)], &[])).unwrap()), expected);
    assert_eq!(shown(load(&sources("", &[], &[("listen", text)])).unwrap()), expected);
}

/// Holds: MBX-P-9, RULE-10.
#[test]
fn a_topic_overrides_settings_of_all_topics() {
    let file = "[mailbox.topics.\"orders.eu\"]\nreplay_window = \"10m\"\nattempts_max = 3\nbackoff_base = \"50ms\"\n\
                [mailbox.topic]\nready_keep = \"3d\"\nbackoff_max = \"9s\"\n";
    let flag = [("mailbox.topics.orders.eu.payload_bytes_max", "2KiB")];
    let loaded = load(&sources(file, &[], &flag)).unwrap();
    let topic = &loaded.config.mailbox.topics["orders.eu"];
    assert_eq!((topic.replay_window.as_secs(), topic.ready_keep.as_secs()), (600, 3 * 86_400));
    assert_eq!(topic.payload_bytes_max, 2048);
    let delays = (topic.backoff_base.as_millis(), topic.backoff_max.as_millis());
    assert_eq!((topic.attempts_max, delays), (3, (50, 9_000)));
    let all = &loaded.config.mailbox.topic;
    assert_eq!(
        (all.replay_window.as_secs(), all.attempts_max, all.backoff_base.as_millis()),
        (300, 16, 1_000)
    );
    assert_eq!(loaded.config.mailbox.topics.len(), 1);
}

/// Holds: MBX-C-7.
#[test]
fn the_profile_determines_amnesia_and_store() {
    for (file, amnesia, store, warnings) in [
        ("", false, "embedded:./oncebox-data", 0),
        ("profile = 'micronode'", true, "memory:", 0),
        ("profile = 'micronode'\namnesia = false", false, "embedded:./oncebox-data", 0),
        ("profile = 'micronode'\namnesia = false\nstore = 'embedded:./x'", false, "embedded:./x", 0),
        ("profile = 'micronode'\nstore = 'memory:?messages_max=9'", true, "memory:?messages_max=9", 0),
        ("amnesia = true", true, "memory:", 1),
        ("store = 'memory:'", false, "memory:", 1),
    ] {
        let loaded = read(file).unwrap();
        assert_eq!((loaded.config.amnesia, loaded.config.store.as_str()), (amnesia, store), "{file}");
        assert_eq!(loaded.warnings.len(), warnings, "{file}");
    }
    let warnings = load(&sources("", &[], &[("amnesia", "true")])).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "amnesia (command line) is on: all messages, including dead letters, are lost when the process ends"
        ]
    );
}

/// Holds: MBX-C-7, MBX-I-9.
#[test]
fn amnesia_rejects_a_store_on_disk() {
    let flag = [("amnesia", "true")];
    let problems = load(&sources("store = 'embedded:./x'", &[], &flag)).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "store (oncebox.toml, line 1) is `embedded:./x`, but amnesia (command line) keeps nothing on disk: \
         set it to `memory:`, or set amnesia to false"
    );
    let problems = read("store = 'embedded:./x'\nprofile = 'micronode'").unwrap_err();
    assert!(problems.to_string().contains("amnesia (follows from profile)"), "{problems}");
}
