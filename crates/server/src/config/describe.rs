//! The reference and the example, from the table.

use std::fmt::Write;

use super::redrive;
use super::rules;
use super::sections::Config;
use super::setting::Setting;
use super::table::{SECTIONS, SETTINGS};

const INTRODUCTION: &str = "\
# Configuration

This page is made from the table of settings in the source; a test keeps it fresh.

Four sources, the later wins: the defaults, a TOML file, the environment, the command line.

- **File**: see [`oncebox.toml`](oncebox.toml) for all settings with their defaults.
- **Environment**: `ONCEBOX__SECTION__NAME=value`, with two underscores between the parts, upper or lower case:
  `ONCEBOX__MAILBOX__SHARDS=16`. A list has commas between its entries:
  `ONCEBOX__LISTEN=127.0.0.1:7420,unix:/tmp/oncebox.sock`. The settings of a single topic cannot be set this way,
  because topics know upper from lower case and variables here do not.
- **Command line**: the dotted name, `mailbox.shards=16`; a topic's is `mailbox.topics.NAME.replay_window=10m`.

A count is a plain number. A duration is a text with its unit: `250ms`, `5s`, `10m`, `1h`, `7d`. So is a size: `100B`,
`512KiB`, `1MiB`, `1GiB`. The server does not start with a configuration that has a fault, and tells all faults at once:
an unknown name is one, and so is a wrong value that a later source overrides.
";

const TOPICS: &str = "\
A topic can have any of these for itself, and the rest from here:

```toml
[mailbox.topics.orders]
replay_window = \"10m\"
```
";

/// All settings as a page of Markdown: name, type, default, range, meaning.
pub fn reference() -> String {
    let defaults = Config::default();
    let mut page = INTRODUCTION.to_owned();
    // Writing to a string cannot fail.
    for (section, title) in SECTIONS {
        let heading = if section.is_empty() { "At the top".to_owned() } else { format!("`[{section}]`") };
        let _ = write!(page, "\n## {heading}\n{title}.\n\n");
        if *section == super::target::TOPIC {
            let _ = writeln!(page, "{TOPICS}");
        }
        page.push_str("| Name | Type | Default | Range | Meaning |\n| --- | --- | --- | --- | --- |\n");
        for setting in settings(section) {
            let Setting { name, kind, meaning, .. } = setting;
            let (kind, range, default) = (kind.name(), kind.range(), setting.text(&defaults));
            let _ = writeln!(page, "| `{name}` | {kind} | `{default}` | {range} | {meaning}. |");
        }
    }
    page.push_str(&redrive::reference());
    page.push_str("\n## Rules between settings\n");
    for sentence in rules::sentences() {
        let _ = writeln!(page, "- {sentence}");
    }
    page.push_str("- With amnesia, a `store` that is set is `memory:`.\n");
    page
}

/// A file with all settings, each with its meaning and its default, which is commented out.
pub fn example() -> String {
    let defaults = Config::default();
    let mut file =
        "# All settings with their defaults. Take the # away from a line to change it.\n".to_owned();
    for (section, title) in SECTIONS {
        let _ = writeln!(file, "\n# {title}.");
        if !section.is_empty() {
            let _ = writeln!(file, "[{section}]");
        }
        for setting in settings(section) {
            let (meaning, value) = (setting.meaning, setting.text(&defaults));
            let range = setting.kind.range();
            let _ = writeln!(file, "\n# {meaning} ({range}).\n#{} = {value}", setting.parts().1);
        }
    }
    file.push_str(
        "\n# A topic can have settings of its own.\n#[mailbox.topics.orders]\n#replay_window = \"5m\"\n",
    );
    file.push_str(&redrive::example());
    file
}

fn settings(section: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.parts().0 == section)
}
