//! Arbitrary sources yield a valid configuration or a list of problems.

use oncebox_server::config::{Sources, load, show};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::read;

fn name() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "listen",
        "profile",
        "amnesia",
        "store",
        "log",
        "log.level",
        "http",
        "http.body_bytes_max",
        "http.batch_bytes_max",
        "mailbox",
        "mailbox.shards",
        "mailbox.shard_capacity",
        "mailbox.global_in_flight",
        "mailbox.topic.backoff_base",
        "mailbox.topic.backoff_max",
        "mailbox.visibility_min",
        "mailbox.visibility_default",
        "mailbox.topic.visibility_default",
        "mailbox.topics.orders.visibility_default",
        "mailbox.topic.replay_window",
        "mailbox.topic.key_hold",
        "mailbox.topics.orders.key_hold",
        "mailbox.topic.ready_keep",
        "mailbox.topic.payload_bytes_max",
        "mailbox.topics.orders.replay_window",
        "mailbox.topics.\"a.b\".payload_bytes_max",
        "mailbox.topics",
        "ledger.keep",
        "",
    ];
    prop_oneof![8 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (0..20_000_u32).prop_map(|number| number.to_string()),
        (any::<u64>(), "ms|s|m|h|d|B|KiB|MiB|GiB|").prop_map(|(number, unit)| format!("{number}{unit}")),
        (0..100_u64, "ms|s|m|h|d|B|KiB|MiB|GiB|").prop_map(|(number, unit)| format!("{number}{unit}")),
        "(info|oncebox|\\[|\\{|=|,|::|a|\"|#){0,8}",
        "(memory|embedded|postgres|unix|localhost|127.0.0.1)?:?[/@?:a1]{0,8}",
        Just("true".to_owned()),
        Just("micronode".to_owned()),
        any::<String>(),
    ]
}

/// As a string, bare, or in a list.
fn toml_value() -> impl Strategy<Value = String> {
    (value(), 0..4_u8).prop_map(|(value, shape)| match shape {
        0 => format!("\"{value}\""),
        1 => format!("'{value}'"),
        2 => format!("['{value}', '127.0.0.1:1']"),
        _ => value,
    })
}

fn check(sources: &Sources) -> Result<(), proptest::test_runner::TestCaseError> {
    match load(sources) {
        Ok(loaded) => {
            prop_assert_eq!(loaded.config.mailbox.problems(), []);
            let again = read(&show(&loaded));
            prop_assert!(again.is_ok(), "{}", show(&loaded));
            prop_assert_eq!(again.map(|again| again.config), Ok(loaded.config));
        }
        Err(problems) => {
            prop_assert!(problems.iter().count() > 0);
            for text in problems.iter() {
                prop_assert!(!text.contains('\n') && text.contains(' '), "{text}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_loaded_or_rejected(text in any::<String>()) {
        let mut sources = Sources::default();
        sources.file = Some(("oncebox.toml".into(), text));
        check(&sources)?;
    }

    #[test]
    fn any_settings_are_loaded_or_rejected(lines in proptest::collection::vec((name(), toml_value()), 0..4)) {
        let text: Vec<String> = lines.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let mut sources = Sources::default();
        sources.file = Some(("oncebox.toml".into(), text.join("\n")));
        check(&sources)?;
    }

    #[test]
    fn any_environment_is_loaded_or_rejected(pairs in proptest::collection::vec((name(), value()), 0..4)) {
        let mut sources = Sources::default();
        let variable = |name: &str| format!("ONCEBOX__{}", name.replace('.', "__"));
        sources.environment = pairs.iter().map(|(name, value)| (variable(name), value.clone())).collect();
        check(&sources)?;
        sources.environment.clear();
        sources.flags = pairs;
        check(&sources)?;
    }
}
