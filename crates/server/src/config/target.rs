//! The setting that a name in a file, a variable or a flag refers to.

use std::fmt;

use super::field::Value;
use super::sections::Config;
use super::setting::Setting;
use super::table::SETTINGS;
use super::unit::key;

/// The section with the settings of all topics, which single topics can override.
pub(super) const TOPIC: &str = "mailbox.topic";
/// The section of topics with settings of their own.
pub(super) const TOPICS: [&str; 2] = ["mailbox", "topics"];

/// A setting of the server or of one topic.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) setting: &'static Setting,
    pub(super) topic: Option<String>,
}

impl Target {
    pub(super) fn of(setting: &'static Setting) -> Self {
        Self { setting, topic: None }
    }

    /// Finds the target of a path.
    pub(super) fn find(path: &[&str]) -> Option<Self> {
        if let [first, second, topic, field] = path
            && [*first, *second] == TOPICS
        {
            let setting = SETTINGS.iter().find(|setting| setting.parts() == (TOPIC, *field))?;
            return Some(Self { setting, topic: Some((*topic).to_owned()) });
        }
        let named = |setting: &&Setting| setting.name.split('.').eq(path.iter().copied());
        SETTINGS.iter().find(named).map(Self::of)
    }

    /// Its effective value: a topic without a value of its own uses the value of all topics.
    pub(super) fn get(&self, config: &Config) -> Value {
        match &self.topic {
            None => (self.setting.get)(config),
            Some(topic) => (self.setting.get)(&view(config, topic)),
        }
    }

    pub(super) fn set(&self, config: &mut Config, value: Value) {
        let Some(topic) = &self.topic else { return (self.setting.set)(config, value) };
        let mut view = view(config, topic);
        (self.setting.set)(&mut view, value);
        config.mailbox.topics.insert(topic.clone(), view.mailbox.topic);
    }
}

/// A configuration in which the settings of one topic replace those of all topics, so that the same rows of the table
/// read and write both.
fn view(config: &Config, topic: &str) -> Config {
    let mut view = Config::default();
    view.mailbox.topic = config.mailbox.topics.get(topic).unwrap_or(&config.mailbox.topic).clone();
    view
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.topic {
            None => formatter.write_str(self.setting.name),
            Some(topic) => write!(formatter, "mailbox.topics.{}.{}", key(topic), self.setting.parts().1),
        }
    }
}

/// Whether a path is a section, not a setting.
pub(super) fn is_section(path: &[&str]) -> bool {
    let topics = path == TOPICS || (path.len() == 3 && path.starts_with(&TOPICS));
    let leads = |setting: &Setting| {
        let (section, _) = setting.parts();
        !section.is_empty() && section.split('.').take(path.len()).eq(path.iter().copied())
    };
    topics || SETTINGS.iter().any(leads)
}
