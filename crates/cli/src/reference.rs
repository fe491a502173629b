//! The reference of the command line, `docs/reference/cli.md`, made from the help texts.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;

use crate::trouble::EXIT_CODES;

const OPENING: &str = "\
# The command line

Made from the help of `oncebox`: after a change, `ONCEBOX_BLESS=1 cargo test -p oncebox-cli reference` writes it anew.

- **Results** are on stdout, everything else is on stderr: notes, and errors with their code and `corr_id`, which the server's log
  has too.
- **Formats**: `--output table` for people, `json` for one document, `ndjson` for one line of JSON per result. If not given, a table
  on a terminal and `ndjson` for whatever else reads it. `explain`, `store` and `config` write prose unless JSON is asked for.
- **Tables** fit the terminal (80 columns if there is none): long texts are cut, times are ages, sizes have units. `--full` shows
  everything, and so do `json` and `ndjson`.
- **Names** in JSON are those of the HTTP interface.
- **Texts of others** (payloads, keys, errors) cannot play with the terminal: what is not to be seen is escaped. A payload that is
  not text is shown in base64; `recv --raw` writes its bytes, and what separates several: a newline, with `--null` a zero byte.
- **Durations** are whole numbers with a unit: `250ms`, `10s`, `5m`, `2h`.
- **Repeats**: while the server is out of reach or full, what is safe to repeat is repeated up to 4 times within 30 seconds.
- **Environment**: `ONCEBOX_SERVER` for `--server`, `NO_COLOR` for no colours; `USER` is the actor in the server's audit log.

";

/// The columns that every help fits.
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
        // They are told once, at the top.
        shown = shown.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    }
    let help = shown.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n```text\n{}\n```\n", help.join("\n").trim_end())
        .expect("a text takes everything");
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        section(text, inner, &format!("{name} {}", inner.get_name()));
    }
}

#[test]
fn the_reference_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let text = reference();
    if std::env::var_os("ONCEBOX_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = "docs/reference/cli.md is stale: run ONCEBOX_BLESS=1 cargo test -p oncebox-cli reference";
    assert!(found == text, "{stale}");
}

/// On the terminal that everybody has.
#[test]
fn every_help_fits_eighty_columns() {
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
