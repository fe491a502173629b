//! Rules that redrive dead letters automatically: `[[mailbox.redrive]]` in the file.

use std::fmt::Write;
use std::time::Duration;

use oncebox::message::{DeadReason, Topic};
use toml::de::{DeTable, DeValue};

use super::field::Value;
use super::kind::Kind;
use super::origin::Origin;
use super::problem::Problems;
use super::raw::Raw;
use super::sections::RedriveRule;
use super::unit::{self, quoted};

/// The path of the list of rules in the file.
pub(super) const PATH: [&str; 2] = ["mailbox", "redrive"];
/// Maximum number of rules.
pub(super) const RULES_MAX: usize = 100;
/// The topic that stands for every topic.
const EVERY_TOPIC: &str = "*";

const REASON_NAMES: &[&str] =
    &["failed", "exhausted", "expired", "cancelled", "integrity", "unhandled", "undecodable"];

const AGE: Kind = Kind::Duration(Duration::from_secs(1), Duration::from_secs(365 * 24 * 60 * 60));
const PER_MINUTE: Kind = Kind::Count(1, 60_000);
const TIMES_MAX: Kind = Kind::Count(1, 100);
const REASON: Kind = Kind::Choice(REASON_NAMES);

/// The fields of a rule, for the reference.
const FIELDS: [(&str, Option<Kind>, &str); 5] = [
    ("topic", None, "Topic whose dead letters are redriven; `*` stands for every topic"),
    ("reason", Some(REASON), "Redrive only dead letters with this reason; any reason if not set"),
    ("age", Some(AGE), "Redrive only messages that died at least this long ago"),
    ("per_minute", Some(PER_MINUTE), "Maximum rate of each server, in messages per minute"),
    (
        "times_max",
        Some(TIMES_MAX),
        "Maximum number of redrives of a message, by rules and operators together; this rule skips messages that have reached it",
    ),
];

impl RedriveRule {
    /// Formats the rule as TOML.
    pub(super) fn toml(&self) -> String {
        let mut text = format!("topic = {}\n", quoted(self.topic.as_deref().unwrap_or(EVERY_TOPIC)));
        // Writing to a string cannot fail.
        if let Some(reason) = self.reason {
            let _ = writeln!(text, "reason = {}", quoted(reason.as_str()));
        }
        let _ = writeln!(text, "age = {}", quoted(&unit::duration(self.age)));
        let _ = writeln!(text, "per_minute = {}\ntimes_max = {}", self.per_minute, self.times_max);
        text
    }
}

/// Parses the list of rules; `at` returns the origin of a byte offset.
pub(super) fn read(
    value: &DeValue<'_>,
    whole: &Origin,
    at: impl Fn(usize) -> Origin,
    problems: &mut Problems,
) -> Vec<RedriveRule> {
    let tables = match value {
        DeValue::Array(items) if items.iter().all(|item| matches!(item.get_ref(), DeValue::Table(_))) => {
            items
        }
        _ => {
            problems.at(
                "mailbox.redrive",
                whole,
                "must be a list of rules: write each rule as [[mailbox.redrive]]",
            );
            return Vec::new();
        }
    };
    if tables.len() > RULES_MAX {
        let fault = format!("has {} rules, but at most {RULES_MAX} are allowed: remove some", tables.len());
        problems.at("mailbox.redrive", whole, &fault);
        return Vec::new();
    }
    let rules = tables.iter().enumerate().filter_map(|(index, item)| {
        let DeValue::Table(table) = item.get_ref() else { return None };
        let rule = Rule { name: format!("mailbox.redrive[{index}]"), start: at(item.span().start), table };
        rule.read(&at, problems)
    });
    rules.collect()
}

/// A field is invalid, which has been reported.
struct Reported;

/// A rule as it was written.
struct Rule<'t, 'v> {
    name: String,
    start: Origin,
    table: &'t DeTable<'v>,
}

impl Rule<'_, '_> {
    /// Parses the rule and reports all of its problems; returns `None` if there are any.
    fn read(&self, at: &impl Fn(usize) -> Origin, problems: &mut Problems) -> Option<RedriveRule> {
        for (name, _) in self.table {
            if !FIELDS.iter().any(|(known, ..)| known == name.get_ref()) {
                let full = format!("{}.{}", self.name, unit::one_line(&unit::key(name.get_ref())));
                let fault = "is not a setting of a rule: use topic, reason, age, per_minute or times_max";
                problems.at(&full, &at(name.span().start), fault);
            }
        }
        let fields = FIELDS.map(|(name, kind, _)| self.field(name, kind, at, problems));
        let [topic, reason, age, per_minute, times_max] = fields;
        let (Value::Text(topic), Value::Duration(age)) = (topic.ok()??, age.ok()??) else { return None };
        let (Value::Number(per_minute), Value::Number(times_max)) = (per_minute.ok()??, times_max.ok()??)
        else {
            return None;
        };
        let reason = match reason.ok()? {
            Some(Value::Text(word)) => DeadReason::ALL.into_iter().find(|reason| reason.as_str() == word),
            _ => None,
        };
        Some(RedriveRule {
            topic: Some(topic).filter(|topic| topic != EVERY_TOPIC),
            reason,
            age,
            per_minute: u32::try_from(per_minute).unwrap_or(u32::MAX),
            times_max: u32::try_from(times_max).unwrap_or(u32::MAX),
        })
    }

    /// The value of a field; `None` if it is optional and missing.
    fn field(
        &self,
        name: &str,
        kind: Option<Kind>,
        at: &impl Fn(usize) -> Origin,
        problems: &mut Problems,
    ) -> Result<Option<Value>, Reported> {
        let full = format!("{}.{name}", self.name);
        let Some((key, value)) = self.table.iter().find(|(key, _)| key.get_ref() == name) else {
            if name == "reason" {
                return Ok(None);
            }
            problems.at(&full, &self.start, "is missing: every rule must set it");
            return Err(Reported);
        };
        let raw = Raw::of(value.get_ref());
        let read = match kind {
            Some(kind) => kind.read(&raw),
            None => topic(&raw).map_err(|fault| vec![fault]),
        };
        match read {
            Ok(value) => Ok(Some(value)),
            Err(faults) => {
                let origin = at(key.span().start);
                for fault in &faults {
                    problems.at(&full, &origin, fault);
                }
                Err(Reported)
            }
        }
    }
}

fn topic(raw: &Raw) -> Result<Value, String> {
    let Raw::Text(topic) = raw else {
        return Err(format!("is {}: expected a topic, or \"*\" for every topic", raw.shown()));
    };
    Topic::new(topic.as_str()).map_err(|invalid| format!("is not a valid topic: {invalid}"))?;
    Ok(Value::Text(topic.clone()))
}

/// The section of the reference.
pub(super) fn reference() -> String {
    let mut page = format!(
        "\n## `[[mailbox.redrive]]`\nRules that redrive dead letters automatically: none by default, at most {RULES_MAX}. \
         They can only be set in the file, and SIGHUP reloads them. \
         Every message that a rule redrives is recorded in the audit log.\n\n\
         ```toml\n[[mailbox.redrive]]\n{}```\n\n| Name | Type | Range | Description |\n| --- | --- | --- | --- |\n",
        example_rule().toml()
    );
    for (name, kind, description) in FIELDS {
        let (kind, range) =
            kind.map_or(("string", "a topic, or `*`".to_owned()), |kind| (kind.name(), kind.range()));
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| `{name}` | {kind} | {range} | {description}. |");
    }
    page
}

/// The section of the example file. These lines stay comments when the `#` of settings is removed.
pub(super) fn example() -> String {
    let mut text = "\n# Rules that redrive dead letters automatically; none by default. Example:\n# [[mailbox.redrive]]\n".to_owned();
    for line in example_rule().toml().lines() {
        let _ = writeln!(text, "# {line}");
    }
    text
}

fn example_rule() -> RedriveRule {
    let (topic, reason) = (Some("orders".to_owned()), Some(DeadReason::Exhausted));
    RedriveRule { topic, reason, age: Duration::from_secs(15 * 60), per_minute: 60, times_max: 2 }
}
