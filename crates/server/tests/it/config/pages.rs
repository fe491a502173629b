//! Pages that are generated from the table of settings.

use std::path::Path;

use oncebox_server::config::{Sources, example, load, reference, show};

use super::{read, sources};

/// Compares a page with its file; updates the file if `ONCEBOX_BLESS` is set.
fn assert_up_to_date(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("ONCEBOX_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/reference/{name} is stale: run the tests with ONCEBOX_BLESS=1 and commit it"
    );
}

#[test]
fn the_reference_is_up_to_date() {
    assert_up_to_date("configuration.md", &reference());
}

/// Holds: MBX-C-12.
#[test]
fn the_example_is_up_to_date_and_yields_the_defaults() {
    assert_up_to_date("oncebox.toml", &example());
    let defaults = load(&Sources::default()).unwrap().config;
    assert_eq!(read(&example()).unwrap().config, defaults);
    // Without the `#` the file yields the same values.
    let bare =
        |line: &str| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned();
    let lines: Vec<String> = example().lines().map(bare).collect();
    let mut config = read(&lines.join("\n")).unwrap().config;
    let orders = config.mailbox.topics.remove("orders");
    assert_eq!(orders, Some(defaults.mailbox.topic.clone()));
    assert_eq!(config, defaults);
}

/// Holds: MBX-C-12.
#[test]
fn the_shown_configuration_loads_to_the_same_values() {
    let file = "profile = 'micronode'\nlisten = ['unix:/tmp/a \"b\".sock']\nlog.level = 'info,oncebox=debug'\n\
                [mailbox.topics.\"orders \\\"eu\\\"\\u007f\"]\nreplay_window = '90s'\n";
    let environment = [("ONCEBOX__HTTP__WAIT_MAX", "1500ms")];
    for sources in
        [Sources::default(), sources("", &environment, &[("amnesia", "true")]), sources(file, &[], &[])]
    {
        let loaded = load(&sources).unwrap();
        assert_eq!(read(&show(&loaded)).unwrap().config, loaded.config, "{}", show(&loaded));
    }
}

/// Holds: MBX-C-12.
#[test]
fn every_shown_line_names_its_origin() {
    let file = "profile = 'micronode'\n[mailbox.topic]\nready_keep = '1d'\n[mailbox.topics.orders]\nreplay_window = '90s'\n";
    let environment = [("ONCEBOX__MAILBOX__SHARDS", "2")];
    let shown = show(&load(&sources(file, &environment, &[("http.wait_max", "5s")])).unwrap());
    for line in [
        "listen = [\"127.0.0.1:7420\"] # default",
        "profile = \"micronode\" # oncebox.toml, line 1",
        "amnesia = true # follows from profile",
        "store = \"memory:\" # follows from amnesia",
        "wait_max = \"5s\" # command line",
        "shards = 2 # variable ONCEBOX__MAILBOX__SHARDS",
        "replay_window = \"90s\" # oncebox.toml, line 5",
        "[mailbox.topics.orders]",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in\n{shown}");
    }
    // The topic inherits the value of all topics, and its origin.
    assert_eq!(shown.lines().filter(|line| *line == "ready_keep = \"1d\" # oncebox.toml, line 3").count(), 2);
    let settings = shown.lines().filter(|line| line.contains(" = "));
    assert!(
        settings.clone().count() > 30 && settings.into_iter().all(|line| line.contains(" # ")),
        "{shown}"
    );
}
