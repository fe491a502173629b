//! Reads the file, the environment and the flags, in ascending precedence.

mod environment;
mod file;

use super::Sources;
use super::nearest;
use super::origin::Origin;
use super::problem::Problems;
use super::raw::Raw;
use super::redact::redacted;
use super::redrive;
use super::sections::RedriveRule;
use super::setting::Setting;
use super::table::SETTINGS;
use super::target::{TOPICS, Target, is_section};
use super::unit::{key, one_line};

/// A setting and the value that a source assigns to it.
pub(super) struct Assignment {
    pub(super) target: Target,
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// Returns all assignments, later ones overriding earlier ones, and the redrive rules, which only the file can contain.
pub(super) fn read(sources: &Sources, problems: &mut Problems) -> (Vec<Assignment>, Vec<RedriveRule>) {
    let (mut assignments, mut rules) = (Vec::new(), Vec::new());
    if let Some((path, text)) = &sources.file {
        (assignments, rules) = file::read(path, text, problems);
    }
    assignments.extend(environment::read(&sources.environment, problems));
    assignments.extend(flags(&sources.flags, problems));
    (assignments, rules)
}

fn flags(flags: &[(String, String)], problems: &mut Problems) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for (name, value) in flags {
        let path = flag_path(name);
        match Target::find(&path) {
            Some(target) => {
                assignments.push(Assignment {
                    target,
                    raw: Raw::Untyped(value.clone()),
                    origin: Origin::Flag,
                });
            }
            None => unknown(&path, &Origin::Flag, problems),
        }
    }
    assignments
}

/// A topic name may contain dots: it is everything between the section and the last dot.
fn flag_path(name: &str) -> Vec<&str> {
    let topic = name.strip_prefix("mailbox.topics.").and_then(|rest| rest.rsplit_once('.'));
    match topic {
        Some((topic, field)) => vec![TOPICS[0], TOPICS[1], topic, field],
        None => name.split('.').collect(),
    }
}

/// Reports a value for an unknown setting.
fn unknown(path: &[&str], origin: &Origin, problems: &mut Problems) {
    let fault = if path.starts_with(&redrive::PATH) {
        "is a list of rules and can only be set in the file: write each rule as [[mailbox.redrive]]"
            .to_owned()
    } else if is_section(path) {
        format!(
            "is a section, not a setting: name a setting in it, such as {}",
            written(&first_setting(path), origin)
        )
    } else {
        match nearest::setting(path) {
            Some(name) => format!("is not a setting: did you mean {}?", written(&name, origin)),
            None => "is not a setting: remove it, or find its name in the configuration reference".to_owned(),
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

/// The name of a setting, as it is written in this source.
fn written(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::Variable(_) => environment::variable(name),
        _ => name.to_owned(),
    }
}

/// Formats a path for an error message. A value may have been written where a name belongs, so passwords are hidden.
fn dotted(path: &[&str]) -> String {
    let keys: Vec<String> = path.iter().map(|part| key(part)).collect();
    one_line(&redacted(&keys.join(".")))
}
