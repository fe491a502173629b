//! A configuration that is being put together.

use std::collections::BTreeMap;

use oncebox::Topic;

use super::field::Value;
use super::layers::Given;
use super::origin::{Origin, Origins};
use super::problem::Problems;
use super::raw::Raw;
use super::sections::Config;
use super::target::Target;

/// Topics with settings of their own, at most.
const TOPICS_MAX: usize = 1_000;

pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) origins: Origins,
    /// The names of settings whose value could not be read. What depends on them is not judged.
    doubtful: Vec<String>,
}

impl Draft {
    pub(super) fn new(given: Vec<Given>, problems: &mut Problems) -> Self {
        let mut draft = Self { config: Config::default(), origins: Origins::default(), doubtful: Vec::new() };
        // What all topics have must be known before what one has instead.
        let (topics, server): (Vec<Given>, Vec<Given>) =
            given.into_iter().partition(|given| given.target.topic.is_some());
        let topics = known_topics(topics, problems);
        for given in server.into_iter().chain(topics) {
            draft.apply(given, problems);
        }
        draft
    }

    pub(super) fn set(&mut self, target: &Target, value: Value, origin: Origin) {
        target.set(&mut self.config, value);
        self.origins.insert(target, origin);
    }

    pub(super) fn is_doubtful(&self, target: &Target) -> bool {
        self.doubtful.contains(&target.to_string())
    }

    fn apply(&mut self, given: Given, problems: &mut Problems) {
        let Given { target, raw, origin } = given;
        if raw == Raw::Broken {
            self.doubtful.push(target.to_string());
            return;
        }
        match target.setting.kind.read(&raw) {
            Ok(value) => self.set(&target, value, origin),
            Err(faults) => {
                let name = target.to_string();
                for fault in &faults {
                    problems.at(&name, &origin, fault);
                }
                self.doubtful.push(name);
            }
        }
    }
}

/// Leaves out topics that no message can have, and those that are too many.
fn known_topics(given: Vec<Given>, problems: &mut Problems) -> Vec<Given> {
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    let mut kept = Vec::new();
    for given in given {
        let Some(topic) = &given.target.topic else { continue };
        let count = known.len();
        let fits = known.entry(topic.clone()).or_insert_with(|| {
            let fault = match Topic::new(topic.as_str()) {
                Err(invalid) => format!("is for no topic: {invalid}"),
                Ok(_) if count == TOPICS_MAX => {
                    format!("is for topic {}, the most is {TOPICS_MAX}: remove some", count + 1)
                }
                Ok(_) => return count < TOPICS_MAX,
            };
            let name = super::unit::line(&given.target.to_string());
            problems.at(&name, &given.origin, &fault);
            false
        });
        if *fits {
            kept.push(given);
        }
    }
    kept
}
