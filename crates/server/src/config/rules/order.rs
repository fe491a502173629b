//! Settings with a minimum that depends on another setting.

use crate::config::draft::Draft;
use crate::config::field::Value;
use crate::config::origin::Origin;
use crate::config::problem::Problems;
use crate::config::table::find;
use crate::config::target::{TOPIC, Target};

/// Space in a request body for everything but the payload.
const ENVELOPE_BYTES: u64 = 4 * 1024;

/// `high` must be at least what `low` requires.
struct Rule {
    high: &'static str,
    low: &'static str,
    /// The minimum of `high` for a value of `low`, and the text around the name of `low` that says so.
    needs: fn(u64) -> u64,
    phrase: (&'static str, &'static str),
}

impl Rule {
    const fn plain(high: &'static str, low: &'static str) -> Self {
        Self { high, low, needs: |low| low, phrase: ("", "") }
    }
}

static RULES: &[Rule] = &[
    Rule::plain("mailbox.global_in_flight", "mailbox.shard_capacity"),
    Rule::plain("mailbox.visibility_default", "mailbox.visibility_min"),
    Rule::plain("mailbox.topic.visibility_default", "mailbox.visibility_min"),
    Rule::plain("mailbox.topic.backoff_max", "mailbox.topic.backoff_base"),
    Rule {
        high: "mailbox.topic.replay_window",
        low: "mailbox.visibility_default",
        needs: |low| low.saturating_mul(2),
        phrase: ("twice ", ""),
    },
    Rule {
        high: "mailbox.topic.replay_window",
        low: "mailbox.topic.visibility_default",
        needs: |low| low.saturating_mul(2),
        phrase: ("twice ", ""),
    },
    Rule {
        high: "http.body_bytes_max",
        low: "mailbox.topic.payload_bytes_max",
        needs: |low| low.div_ceil(3).saturating_mul(4).saturating_add(ENVELOPE_BYTES),
        phrase: ("the base64 size of ", " plus 4KiB"),
    },
    Rule::plain("http.body_bytes_max", "mailbox.bytes_default"),
    Rule::plain("http.batch_bytes_max", "http.body_bytes_max"),
    Rule::plain("http.bodies_bytes_max", "http.batch_bytes_max"),
];

/// The rules as sentences, for the reference.
pub(in crate::config) fn sentences() -> impl Iterator<Item = String> {
    RULES.iter().map(|rule| {
        let (before, after) = rule.phrase;
        format!("`{}` must be at least {before}`{}`{after}.", rule.high, rule.low)
    })
}

/// Reports every violated rule.
pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    for rule in RULES {
        for (high, low) in pairs(rule, draft) {
            if draft.is_invalid(&high) || draft.is_invalid(&low) || is_replaced(&high, &low, draft) {
                continue;
            }
            let (actual, required) =
                (comparable(&high.get(&draft.config)), comparable(&low.get(&draft.config)));
            if actual.zip(required).is_some_and(|(actual, required)| actual < (rule.needs)(required)) {
                report(rule, (&high, &low), draft, problems);
            }
        }
    }
}

/// Whether `low` is a default that the topic of `high` overrides.
fn is_replaced(high: &Target, low: &Target, draft: &Draft) -> bool {
    let mailbox = &draft.config.mailbox;
    let topic = high.topic.as_ref().and_then(|topic| mailbox.topics.get(topic)).unwrap_or(&mailbox.topic);
    let of_topics = high.setting.parts().0 == TOPIC && low.setting.name == "mailbox.visibility_default";
    of_topics && topic.visibility_default.is_some()
}

/// The pairs of settings that a rule applies to: those of the server, and those of each topic that overrides one of
/// them.
fn pairs(rule: &Rule, draft: &Draft) -> Vec<(Target, Target)> {
    let (Some(high), Some(low)) = (find(rule.high), find(rule.low)) else { return Vec::new() };
    let mut pairs = vec![(Target::of(high), Target::of(low))];
    for topic in draft.config.mailbox.topics.keys() {
        let of = |setting| {
            let own = Target { setting, topic: Some(topic.clone()) };
            let own = Some(own).filter(|own| setting.parts().0 == TOPIC && draft.origins.has(own));
            own.unwrap_or_else(|| Target::of(setting))
        };
        let pair = (of(high), of(low));
        if pair.0.topic.is_some() || pair.1.topic.is_some() {
            pairs.push(pair);
        }
    }
    pairs
}

fn report(rule: &Rule, (high, low): (&Target, &Target), draft: &Draft, problems: &mut Problems) {
    let shown = |target: &Target| target.setting.kind.plain(&target.get(&draft.config));
    let of_the_server = high.topic.is_none() && low.topic.is_none();
    let siblings = of_the_server && high.setting.parts().0 == low.setting.parts().0;
    let low_name = if siblings { low.setting.parts().1.to_owned() } else { low.to_string() };
    let (low_origin, advice) = match draft.origins.effective(low) {
        Origin::Default => (String::new(), "raise it".to_owned()),
        origin => (format!(", {origin}"), format!("raise it, or lower {low_name}")),
    };
    let (before, after) = rule.phrase;
    let fault =
        format!("is {}, below {before}{low_name} ({}{low_origin}){after}: {advice}", shown(high), shown(low));
    problems.at(&high.to_string(), &draft.origins.effective(high), &fault);
}

/// The value as a number; `None` if there is nothing to compare.
fn comparable(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Duration(duration) | Value::OptionalDuration(Some(duration)) => {
            Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
        }
        Value::Bool(_)
        | Value::OptionalDuration(None)
        | Value::Text(_)
        | Value::File(_)
        | Value::Listen(_) => None,
    }
}
