//! Problems that an invalid configuration reports.

use super::{load, read, sources};

fn problems_of(file: &str) -> Vec<String> {
    read(file).map(drop).unwrap_err().iter().map(str::to_owned).collect()
}

#[test]
fn a_problem_names_the_setting_its_origin_and_a_remedy() {
    for (file, expected) in [
        (
            "\n\n\n\n\n[mailbox]\nglobal_in_flight = 10\n",
            "mailbox.global_in_flight (oncebox.toml, line 7) is 10, below shard_capacity (4096): raise it",
        ),
        (
            "mailbox.shard_capacity = 9000",
            "mailbox.global_in_flight (default) is 8192, below shard_capacity (9000, oncebox.toml, line 1): \
             raise it, or lower shard_capacity",
        ),
        (
            "[mailbox.topics.orders]\nreplay_window = '9s'",
            "mailbox.topics.orders.replay_window (oncebox.toml, line 2) is 9s, below twice \
             mailbox.visibility_default (30s): raise it",
        ),
        (
            "http.body_bytes_max = '1MiB'",
            "http.body_bytes_max (oncebox.toml, line 1) is 1MiB, below the base64 size of \
             mailbox.topic.payload_bytes_max (1MiB) plus 4KiB: raise it",
        ),
        (
            "http.connections_max = 0",
            "http.connections_max (oncebox.toml, line 1) is 0, but must be at least 1",
        ),
        (
            "mailbox.topics.orders.dlq_keep = '1000d'",
            "mailbox.topics.orders.dlq_keep (oncebox.toml, line 1) is 1000d, but must be at most 365d",
        ),
        (
            "retention.dead = 'never'",
            "retention.dead (oncebox.toml, line 1) is the string `never`: expected \"off\", or a duration with a unit, such as \"30d\"",
        ),
        ("ledger.keep = '1h'", "ledger.keep (oncebox.toml, line 1) is 1h, but must be at least 7d"),
        (
            "http.wait_max = 5",
            "http.wait_max (oncebox.toml, line 1) is 5: expected a duration with a unit, such as \"250ms\", \"5s\", \
             \"10m\", \"1h\", \"7d\"",
        ),
        (
            "mailbox.shards = '8'",
            "mailbox.shards (oncebox.toml, line 1) is the string `8`: expected a whole number, such as 16",
        ),
        (
            "profile = 'nanonode'",
            "profile (oncebox.toml, line 1) is the string `nanonode`: expected \"macronode\" or \"micronode\"",
        ),
        (
            "log.level = 'inof'",
            "log.level (oncebox.toml, line 1) contains `inof`, which is not a log level: use off, error, warn, info, debug, \
             trace or TARGET=LEVEL",
        ),
        (
            "listen = ['0.0.0.0:7420']",
            "listen (oncebox.toml, line 1) contains `0.0.0.0:7420`, which other machines can reach: set \
             `auth.key_file`, `tls.certificate_file` and `tls.key_file`; or use a loopback address, a unix socket, or a \
             proxy on the same machine",
        ),
    ] {
        assert_eq!(problems_of(file), [expected], "{file}");
    }
}

#[test]
fn the_visibility_of_a_topic_is_checked_against_other_settings() {
    for (file, expected) in [
        (
            "[mailbox.topics.slow]\nvisibility_default = '10m'",
            "mailbox.topic.replay_window (default) is 5m, below twice mailbox.topics.slow.visibility_default \
             (10m, oncebox.toml, line 2): raise it, or lower mailbox.topics.slow.visibility_default",
        ),
        (
            "mailbox.topic.visibility_default = '100ms'",
            "mailbox.topic.visibility_default (oncebox.toml, line 1) is 100ms, below mailbox.visibility_min \
             (250ms): raise it",
        ),
        (
            "mailbox.topic.visibility_default = 'off'",
            "mailbox.topic.visibility_default (oncebox.toml, line 1) is the string `off`: expected \"default\", or a \
             duration with a unit, such as \"30s\"",
        ),
    ] {
        assert_eq!(problems_of(file), [expected], "{file}");
    }
    let own = "[mailbox]\nvisibility_default = '2m'\n[mailbox.topic]\nreplay_window = '4m'\n\
               [mailbox.topics.quick]\nvisibility_default = '10s'\nreplay_window = '20s'\n";
    let mailbox = read(own).unwrap().config.mailbox;
    assert_eq!(mailbox.visibility_of("quick").as_secs(), 10);
    assert_eq!(mailbox.visibility_of("usual").as_secs(), 120);
}

#[test]
fn a_redrive_rule_is_named_by_its_index() {
    for (file, expected) in [
        (
            "[[mailbox.redrive]]\ntopic = 't'\nage = '0s'\nper_minute = 1\ntimes_max = 1",
            "mailbox.redrive[0].age (oncebox.toml, line 3) is 0s, but must be at least 1s",
        ),
        (
            "[[mailbox.redrive]]\ntopic = 't'\nage = '1s'\nper_minute = 1\n",
            "mailbox.redrive[0].times_max (oncebox.toml, line 1) is missing: every rule must set it",
        ),
        (
            "[[mailbox.redrive]]\ntopic = 7\nage = '1s'\nper_minute = 1\ntimes_max = 1",
            "mailbox.redrive[0].topic (oncebox.toml, line 2) is 7: expected a topic, or \"*\" for every topic",
        ),
        (
            "[[mailbox.redrive]]\ntopic = 't'\nage = '1s'\nper_minute = 1\ntimes_max = 1\nfast = true",
            "mailbox.redrive[0].fast (oncebox.toml, line 6) is not a setting of a rule: use topic, reason, age, per_minute \
             or times_max",
        ),
        (
            "mailbox.redrive = 'always'",
            "mailbox.redrive (oncebox.toml, line 1) must be a list of rules: write each rule as [[mailbox.redrive]]",
        ),
    ] {
        assert_eq!(problems_of(file), [expected], "{file}");
    }
    let reason = problems_of(
        "[[mailbox.redrive]]\ntopic = 't'\nreason = 'sad'\nage = '1s'\nper_minute = 1\ntimes_max = 1",
    );
    assert!(
        reason[0]
            .starts_with("mailbox.redrive[0].reason (oncebox.toml, line 3) is the string `sad`: expected"),
        "{reason:?}"
    );
    let many = "[[mailbox.redrive]]\ntopic = 't'\nage = '1s'\nper_minute = 1\ntimes_max = 1\n".repeat(101);
    assert!(
        problems_of(&many)[0].contains("has 101 rules, but at most 100 are allowed"),
        "{:?}",
        problems_of(&many)
    );
}

#[test]
fn an_unknown_name_is_a_problem_with_a_suggestion() {
    for (file, expected) in [
        (
            "mailbox.shard = 8",
            "mailbox.shard (oncebox.toml, line 1) is not a setting: did you mean mailbox.shards?",
        ),
        ("[mailbx]\nshards = 8", "mailbx (oncebox.toml, line 1) is not a section: did you mean mailbox?"),
        (
            "\"mailbox.shards\" = 8",
            "\"mailbox.shards\" (oncebox.toml, line 1) is not a setting: did you mean mailbox.shards?",
        ),
        (
            "[mailbox.topic.orders]\nready_keep = '1d'",
            "mailbox.topic.orders (oncebox.toml, line 1) is not a section: did you mean mailbox.topics.orders?",
        ),
        (
            "http = 3",
            "http (oncebox.toml, line 1) is a section, not a setting: name a setting in it, such as http.connections_max",
        ),
        (
            "weather = 'fine'",
            "weather (oncebox.toml, line 1) is not a setting: remove it, or find its name in the configuration reference",
        ),
    ] {
        assert_eq!(problems_of(file), [expected], "{file}");
    }
    let environment = [
        ("ONCEBOX__MAILBOX__SHARD", "8"),
        ("ONCEBOX__MAILBOX__TOPICS__ORDERS__READY_KEEP", "1d"),
        ("ONCEBOX__STORE", "memory:"),
        ("oncebox__store", "memory:"),
    ];
    let problems = load(&sources("", &environment, &[("mailbox", "8")])).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "mailbox.shard (variable ONCEBOX__MAILBOX__SHARD) is not a setting: did you mean ONCEBOX__MAILBOX__SHARDS?\n\
         mailbox.topics.orders.ready_keep (variable ONCEBOX__MAILBOX__TOPICS__ORDERS__READY_KEEP) cannot be set by a \
         variable, because variable names are case-insensitive and topics are not: use the file\n\
         store (variable oncebox__store) is also set by ONCEBOX__STORE: remove one of them\n\
         mailbox (command line) is a section, not a setting: name a setting in it, such as mailbox.shards"
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let file = "listen = ['y', 'x']\nlog.level = ','\nhttp.wait_max = 'soon'\nbogus = 1\n\
                mailbox.topic.backoff_base = '2m'\nhttp.batch_bytes_max = 'x'\nhttp.bodies_bytes_max = '1KiB'\n";
    let problems =
        load(&sources(file, &[("ONCEBOX__AMNESIA", "yes")], &[("mailbox.shards", "-1")])).unwrap_err();
    let starts: Vec<String> =
        problems.iter().map(|text| text.split(' ').next().unwrap_or_default().to_owned()).collect();
    // bodies_bytes_max is not checked while batch_bytes_max is invalid.
    let mut expected = vec![
        "bogus",
        "listen",
        "listen",
        "log.level",
        "http.wait_max",
        "http.batch_bytes_max",
        "amnesia",
        "mailbox.shards",
        "mailbox.topic.backoff_max",
    ];
    let mut starts: Vec<&str> = starts.iter().map(String::as_str).collect();
    starts.sort_unstable();
    expected.sort_unstable();
    assert_eq!(starts, expected, "{problems}");
}

#[test]
fn the_number_of_problems_and_topics_is_bounded() {
    let lines: Vec<String> = (0..150).map(|number| format!("unknown{number} = 1")).collect();
    let problems = read(&lines.join("\n")).unwrap_err();
    assert_eq!(problems.iter().count(), 100);
    assert!(problems.to_string().ends_with("\nand 50 more"), "{problems}");
    let lines: Vec<String> =
        (0..1_005).map(|number| format!("mailbox.topics.t{number}.ready_keep = '1d'")).collect();
    let problems = problems_of(&lines.join("\n"));
    assert!(
        problems.len() == 1
            && problems[0].contains("is for topic 1001, but at most 1000 topics can have their own settings"),
        "{problems:?}"
    );
    let file = format!("# {}", "x".repeat(1024 * 1024));
    assert!(read(&file).is_err());
}

#[test]
fn an_invalid_topic_is_a_problem() {
    let problems =
        problems_of("mailbox.topics.\"\".ready_keep = '1d'\nmailbox.topics.\"a\\u0000\".ready_keep = '1d'");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|text| text.contains("names an invalid topic")), "{problems:?}");
}

/// Neither guesses of the parser about the rest of a broken line are reported, nor consequences of the missing value.
#[test]
fn invalid_toml_is_reported_once_with_its_line() {
    for (file, line) in [
        ("[log]\nlevel = \"info\n", 2),
        ("[log]\nlevel info\n", 2),
        ("amnesia = false\namnesia = true\n", 2),
        ("listen = [\n", 1),
        ("store = one two three", 1),
        ("[mailbox]\nshard_capacity = 9000\nglobal_in_flight = 9000x\n", 3),
    ] {
        let problems = problems_of(file);
        let start = format!("oncebox.toml, line {line}: ");
        assert!(problems.len() == 1 && problems[0].starts_with(&start), "{file}: {problems:?}");
    }
}

/// Whatever the problem is, and wherever the password occurs.
#[test]
fn a_password_is_never_shown() {
    let url = "mysql://user:hidden@host/db";
    for file in [
        format!("store = '{url}'"),
        format!("store = {url}"),
        format!("store = \"{url}"),
        format!("store = ['{url}']"),
        format!("store '{url}'"),
        format!("{url} = 1"),
        format!("'{url}' = 1"),
        format!("['{url}']\na = 1"),
        format!("listen = ['{url}']"),
        format!("log.level = '{url}'"),
        format!("profile = '{url}'"),
        format!("store = {{ url = '{url}' }}"),
        format!("[store]\nurl = '{url}'"),
    ] {
        let problems = read(&file).map(drop).unwrap_err();
        assert!(!problems.to_string().contains("hidden"), "{file}\n{problems}");
    }
    assert_eq!(
        problems_of(&format!("store = '{url}'")),
        [
            "store (oncebox.toml, line 1) is `mysql://user:***@host/db`, which is not a supported store: use `memory:`, \
             `embedded:DIRECTORY` or `postgres://HOST/DATABASE`"
        ]
    );
}
