//! Environment variables: `ONCEBOX__SECTION__NAME=value`.

use std::collections::BTreeMap;

use super::{Assignment, TOPICS, Target, unknown};
use crate::config::origin::Origin;
use crate::config::problem::Problems;
use crate::config::raw::Raw;

const PREFIX: &str = "ONCEBOX__";

/// The name of the variable for a setting.
pub(in crate::config) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase().replace('.', "__"))
}

pub(super) fn read(environment: &[(String, String)], problems: &mut Problems) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (variable, value) in environment {
        let Some(name) = own(variable) else { continue };
        let origin = Origin::Variable(variable.clone());
        if let Some(other) = seen.insert(name.clone(), variable) {
            problems.at(&name, &origin, &format!("is also set by {other}: remove one of them"));
            continue;
        }
        let path: Vec<&str> = name.split('.').collect();
        if path.starts_with(&TOPICS) {
            let fault = "cannot be set by a variable, because variable names are case-insensitive and topics are not: use the file";
            problems.at(&super::dotted(&path), &origin, fault);
            continue;
        }
        match Target::find(&path) {
            Some(target) => assignments.push(Assignment { target, raw: Raw::Untyped(value.clone()), origin }),
            None => unknown(&path, &origin, problems),
        }
    }
    assignments
}

/// The dotted name of the setting, if the variable has our prefix.
fn own(variable: &str) -> Option<String> {
    let (prefix, rest) = variable.split_at_checked(PREFIX.len())?;
    prefix.eq_ignore_ascii_case(PREFIX).then(|| rest.to_lowercase().replace("__", "."))
}
