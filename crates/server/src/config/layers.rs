//! What the file, the environment and the flags say, in the order in which they hold.

mod environment;
mod file;

use super::Sources;
use super::nearest;
use super::origin::Origin;
use super::problem::Problems;
use super::raw::Raw;
use super::redrive::{self, RedriveRule};
use super::setting::Setting;
use super::store::redacted;
use super::table::SETTINGS;
use super::target::{TOPICS, Target, is_section};
use super::unit::{key, line};

/// A setting and what somebody wrote for it.
pub(super) struct Given {
    pub(super) target: Target,
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// All that was said; what is later in the list holds. Rules can stand in the file alone.
pub(super) fn read(sources: &Sources, problems: &mut Problems) -> (Vec<Given>, Vec<RedriveRule>) {
    let (mut given, mut rules) = (Vec::new(), Vec::new());
    if let Some((path, text)) = &sources.file {
        (given, rules) = file::read(path, text, problems);
    }
    given.extend(environment::read(&sources.environment, problems));
    given.extend(flags(&sources.flags, problems));
    (given, rules)
}

fn flags(flags: &[(String, String)], problems: &mut Problems) -> Vec<Given> {
    let mut given = Vec::new();
    for (name, value) in flags {
        let path = flag_path(name);
        match Target::find(&path) {
            Some(target) => {
                given.push(Given { target, raw: Raw::Untyped(value.clone()), origin: Origin::Flag });
            }
            None => unknown(&path, &Origin::Flag, problems),
        }
    }
    given
}

/// A topic's name may hold dots: what stands between the section and the last dot is the topic.
fn flag_path(name: &str) -> Vec<&str> {
    let topic = name.strip_prefix("mailbox.topics.").and_then(|rest| rest.rsplit_once('.'));
    match topic {
        Some((topic, field)) => vec![TOPICS[0], TOPICS[1], topic, field],
        None => name.split('.').collect(),
    }
}

/// A value for what is no setting.
fn unknown(path: &[&str], origin: &Origin, problems: &mut Problems) {
    let fault = if path.starts_with(&redrive::PATH) {
        "is a list of rules, which stands in the file only: write each as [[mailbox.redrive]]".to_owned()
    } else if is_section(path) {
        format!("is a section: name a setting in it, as in {}", written(&first_setting(path), origin))
    } else {
        match nearest::setting(path) {
            Some(name) => format!("is no setting: did you mean {}?", written(&name, origin)),
            None => "is no setting: remove it, or find its name in the configuration reference".to_owned(),
        }
    };
    problems.at(&dotted(path), origin, &fault);
}

fn first_setting(section: &[&str]) -> String {
    if section.starts_with(&TOPICS) {
        return "mailbox.topics.NAME.replay_window".to_owned();
    }
    let start = format!("{}.", section.join("."));
    let name = |setting: &Setting| setting.name.starts_with(&start).then(|| setting.name.to_owned());
    SETTINGS.iter().find_map(name).unwrap_or(start)
}

/// A setting's name as it is written there.
fn written(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::Variable(_) => environment::variable(name),
        _ => name.to_owned(),
    }
}

/// A path for a message. Somebody may have put a value where a name belongs.
fn dotted(path: &[&str]) -> String {
    let keys: Vec<String> = path.iter().map(|part| key(part)).collect();
    line(&redacted(&keys.join(".")))
}
