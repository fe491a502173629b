//! The effective configuration, as printed by `oncebox config show`.

use std::fmt::Write;

use super::Loaded;
use super::setting::Setting;
use super::table::SETTINGS;
use super::target::{TOPIC, Target};
use super::unit::key;

/// Formats the effective configuration as a TOML file that loads to the same values; a comment on each line names the
/// origin. Passwords are hidden.
pub fn show(loaded: &Loaded) -> String {
    let mut text = String::new();
    let mut section = "";
    for setting in SETTINGS {
        if setting.parts().0 != section {
            section = setting.parts().0;
            header(&mut text, section);
        }
        line(&mut text, loaded, &Target::of(setting));
    }
    let of_topics: Vec<&'static Setting> =
        SETTINGS.iter().filter(|setting| setting.parts().0 == TOPIC).collect();
    for topic in loaded.config.mailbox.topics.keys() {
        header(&mut text, &format!("mailbox.topics.{}", key(topic)));
        for setting in &of_topics {
            line(&mut text, loaded, &Target { setting, topic: Some(topic.clone()) });
        }
    }
    for rule in &loaded.config.redrive {
        let _ = write!(text, "\n[[mailbox.redrive]]\n{}", rule.toml());
    }
    text
}

// Writing to a string cannot fail.
fn header(text: &mut String, section: &str) {
    let _ = writeln!(text, "\n[{section}]");
}

fn line(text: &mut String, loaded: &Loaded, target: &Target) {
    let setting = target.setting;
    let value = setting.kind.toml(&target.get(&loaded.config));
    let _ = writeln!(text, "{} = {value} # {}", setting.parts().1, loaded.origins.effective(target));
}
