//! The configuration reference and the example file, generated from the table of settings.

use std::fmt::Write;

use super::redrive;
use super::rules;
use super::sections::Config;
use super::setting::Setting;
use super::table::{SECTIONS, SETTINGS};

const INTRODUCTION: &str = "\
# Configuration

This page is generated from the table of settings in the source code; a test keeps it up to date.

Settings come from four sources, in ascending precedence: the defaults, a TOML file, environment variables and the
command line.

- **File**: [`oncebox.toml`](oncebox.toml) lists all settings with their defaults.
- **Environment**: `ONCEBOX__SECTION__NAME=value`, with two underscores between the parts, in upper or lower case:
  `ONCEBOX__MAILBOX__SHARDS=16`. Separate the entries of a list with commas:
  `ONCEBOX__LISTEN=127.0.0.1:7420,unix:/tmp/oncebox.sock`. Settings of a single topic cannot be set this way,
  because topic names are case-sensitive and variable names are not.
- **Command line**: the dotted name, such as `mailbox.shards=16`, or for a single topic
  `mailbox.topics.NAME.replay_window=10m`.

A count is a plain number. A duration is a string with a unit: `250ms`, `5s`, `10m`, `1h`, `7d`. A size is a string with
a unit: `100B`, `512KiB`, `1MiB`, `1GiB`. The server does not start with an invalid configuration, and reports all
problems at once. Unknown names are errors, and so are invalid values that a later source overrides.
";

const TOPICS: &str = "\
A topic can override any of these settings; the others apply to it as set here:

```toml
[mailbox.topics.orders]
replay_window = \"10m\"
```
";

/// Returns the reference of all settings in Markdown: name, type, default, range, description.
pub fn reference() -> String {
    let defaults = Config::default();
    let mut page = INTRODUCTION.to_owned();
    // Writing to a string cannot fail.
    for (section, title) in SECTIONS {
        let heading = if section.is_empty() { "Top level".to_owned() } else { format!("`[{section}]`") };
        let _ = write!(page, "\n## {heading}\n{title}.\n\n");
        if *section == super::target::TOPIC {
            let _ = writeln!(page, "{TOPICS}");
        }
        page.push_str("| Name | Type | Default | Range | Description |\n| --- | --- | --- | --- | --- |\n");
        for setting in settings(section) {
            let Setting { name, kind, description, .. } = setting;
            let (kind, range, default) = (kind.name(), kind.range(), setting.text(&defaults));
            let _ = writeln!(page, "| `{name}` | {kind} | `{default}` | {range} | {description}. |");
        }
    }
    page.push_str(&redrive::reference());
    page.push_str("\n## Rules between settings\n");
    for sentence in rules::sentences() {
        let _ = writeln!(page, "- {sentence}");
    }
    page.push_str("- With `amnesia`, `store` must be `memory:`.\n");
    page
}

/// Returns a configuration file with all settings, each with its description and its default, commented out.
pub fn example() -> String {
    let defaults = Config::default();
    let mut file =
        "# All settings with their defaults. Remove the # from a line to change the setting.\n".to_owned();
    for (section, title) in SECTIONS {
        let _ = writeln!(file, "\n# {title}.");
        if !section.is_empty() {
            let _ = writeln!(file, "[{section}]");
        }
        for setting in settings(section) {
            let (description, value) = (setting.description, setting.text(&defaults));
            let range = setting.kind.range();
            let _ = writeln!(file, "\n# {description} ({range}).\n#{} = {value}", setting.parts().1);
        }
    }
    file.push_str(
        "\n# A topic can override the settings of [mailbox.topic].\n#[mailbox.topics.orders]\n#replay_window = \"5m\"\n",
    );
    file.push_str(&redrive::example());
    file
}

fn settings(section: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.parts().0 == section)
}
