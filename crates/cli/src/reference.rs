//! Generates the command-line reference, `docs/reference/cli.md`, from the help texts.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;

use crate::error::EXIT_CODES;

const OPENING: &str = "\
# The command line

Generated from the help of `oncebox`. To update it after a change, run `ONCEBOX_BLESS=1 cargo test -p oncebox-cli reference`.

- **Output**: results go to stdout. Notes and errors go to stderr; an error includes its code and the `corr_id`, which is also in the
  server's log.
- **Formats**: `--output table` is for people, `json` writes one document, `ndjson` one line of JSON per result. The default is a
  table on a terminal and `ndjson` otherwise. `explain`, `store` and `config` write prose unless JSON is requested.
- **Tables** fit the terminal (80 columns if there is none): long texts are truncated, times are shown as ages and sizes with units.
  `--full`, `json` and `ndjson` show complete values.
- **Field names** in JSON are those of the HTTP API.
- **Untrusted text** (payloads, keys, errors) is escaped, so that it cannot control the terminal. A payload that is not text is shown
  in base64. `recv --raw` writes payloads byte for byte, separated by newlines or, with `--null`, by NUL bytes.
- **Durations** are whole numbers with a unit: `250ms`, `10s`, `5m`, `2h`.
- **Retries**: while the server is unreachable or full, calls that are safe to repeat are retried up to 4 times within 30 seconds.
- **Environment**: `ONCEBOX_SERVER` sets the default of `--server`, `NO_COLOR` disables colours, and `USER` is recorded as the actor
  in the server's audit log.

";

/// Maximum width of help texts.
const WIDTH: usize = 80;

fn reference() -> String {
    let mut text = format!("{OPENING}```text\n{EXIT_CODES}\n```\n");
    let mut command = crate::command();
    command.build();
    section(&mut text, &command, "oncebox");
    text
}

fn section(text: &mut String, command: &Command, name: &str) {
    let mut shown = command.clone().after_help("").bin_name(name).term_width(WIDTH);
    if name != "oncebox" {
        // Global options are documented once, at the top.
        shown = shown.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    }
    let help = shown.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n```text\n{}\n```\n", help.join("\n").trim_end())
        .expect("writing to a string cannot fail");
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        section(text, inner, &format!("{name} {}", inner.get_name()));
    }
}

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let text = reference();
    if std::env::var_os("ONCEBOX_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = "docs/reference/cli.md is stale: run ONCEBOX_BLESS=1 cargo test -p oncebox-cli reference";
    assert!(found == text, "{stale}");
}

/// Help texts fit a standard terminal.
#[test]
fn every_help_text_fits_80_columns() {
    fn check(command: &Command) {
        let help = command.clone().term_width(WIDTH).render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= WIDTH, "{}: {line:?}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    let mut command = crate::command();
    command.build();
    check(&command);
}
