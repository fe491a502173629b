//! A configuration under construction.

use std::collections::BTreeMap;

use oncebox::message::Topic;

use super::field::Value;
use super::layers::Assignment;
use super::origin::{Origin, Origins};
use super::problem::Problems;
use super::raw::Raw;
use super::sections::Config;
use super::target::Target;

/// Maximum number of topics with settings of their own.
const TOPICS_MAX: usize = 1_000;

pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) origins: Origins,
    /// Names of settings whose value is invalid. Rules that involve them are not checked.
    invalid: Vec<String>,
}

impl Draft {
    pub(super) fn new(assignments: Vec<Assignment>, problems: &mut Problems) -> Self {
        let mut draft = Self { config: Config::default(), origins: Origins::default(), invalid: Vec::new() };
        // The settings of all topics must be known before those that single topics override.
        let (topics, server): (Vec<Assignment>, Vec<Assignment>) =
            assignments.into_iter().partition(|assignment| assignment.target.topic.is_some());
        let topics = valid_topics(topics, problems);
        for assignment in server.into_iter().chain(topics) {
            draft.apply(assignment, problems);
        }
        draft
    }

    pub(super) fn set(&mut self, target: &Target, value: Value, origin: Origin) {
        target.set(&mut self.config, value);
        self.origins.insert(target, origin);
    }

    pub(super) fn is_invalid(&self, target: &Target) -> bool {
        self.invalid.contains(&target.to_string())
    }

    fn apply(&mut self, assignment: Assignment, problems: &mut Problems) {
        let Assignment { target, raw, origin } = assignment;
        if raw == Raw::Broken {
            self.invalid.push(target.to_string());
            return;
        }
        match target.setting.kind.read(&raw) {
            Ok(value) => self.set(&target, value, origin),
            Err(faults) => {
                let name = target.to_string();
                for fault in &faults {
                    problems.at(&name, &origin, fault);
                }
                self.invalid.push(name);
            }
        }
    }
}

/// Drops assignments for invalid topic names, and for topics beyond the maximum.
fn valid_topics(assignments: Vec<Assignment>, problems: &mut Problems) -> Vec<Assignment> {
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    let mut kept = Vec::new();
    for assignment in assignments {
        let Some(topic) = &assignment.target.topic else { continue };
        let count = known.len();
        let fits = known.entry(topic.clone()).or_insert_with(|| {
            let fault = match Topic::new(topic.as_str()) {
                Err(invalid) => format!("names an invalid topic: {invalid}"),
                Ok(_) if count == TOPICS_MAX => {
                    format!("is for topic {}, but at most {TOPICS_MAX} topics can have their own settings: remove some", count + 1)
                }
                Ok(_) => return count < TOPICS_MAX,
            };
            let name = super::unit::one_line(&assignment.target.to_string());
            problems.at(&name, &assignment.origin, &fault);
            false
        });
        if *fits {
            kept.push(assignment);
        }
    }
    kept
}
