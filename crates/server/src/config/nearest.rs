//! Suggests the setting or section that a misspelt name may mean.

use super::setting::Setting;
use super::table::{SECTIONS, SETTINGS};
use super::target::{TOPIC, TOPICS};

/// Longer names get no suggestion.
const NAME_BYTES_MAX: usize = 100;

/// The setting that an unknown path may mean.
pub(super) fn setting(path: &[&str]) -> Option<String> {
    if let [first, second, topic, field] = path
        && [*first, *second] == TOPICS
    {
        let fields = SETTINGS.iter().map(Setting::parts).filter(|(section, _)| *section == TOPIC);
        let field = nearest(field, fields.map(|(_, field)| field))?;
        return Some([*first, *second, &super::unit::key(topic), field].join("."));
    }
    nearest(&path.join("."), SETTINGS.iter().map(|setting| setting.name)).map(str::to_owned)
}

/// The section that an unknown path may mean.
pub(super) fn section(path: &[&str]) -> Option<String> {
    if let ["mailbox", "topic", topic] = path {
        return Some(format!("mailbox.topics.{}", super::unit::key(topic)));
    }
    let sections = SECTIONS.iter().map(|(name, _)| *name).filter(|name| !name.is_empty());
    nearest(&path.join("."), sections.chain(["mailbox.topics"])).map(str::to_owned)
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let last = |name: &str| name.rsplit('.').next().map(str::to_owned);
    let distance_to = |known: &str| {
        // The right name in the wrong section is as close as one wrong letter.
        let misplaced = last(known) == last(&name);
        if misplaced { distance(&name, known).min(1) } else { distance(&name, known) }
    };
    let (distance, known) =
        known.map(|known| (distance_to(known), known)).min_by_key(|(distance, _)| *distance)?;
    (distance <= (name.chars().count() / 3).max(1)).then_some(known)
}

/// Levenshtein distance: how many letters must be inserted, deleted or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, left) in one.chars().enumerate() {
        let mut diagonal = index;
        let mut before = index + 1;
        for (right, above) in other.iter().zip(row.iter_mut().skip(1)) {
            let changed = diagonal + usize::from(left != *right);
            diagonal = *above;
            before = changed.min(before + 1).min(*above + 1);
            *above = before;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_letter_edits() {
        for (one, other, expected) in
            [("", "", 0), ("abc", "", 3), ("", "abc", 3), ("saturday", "sunday", 3), ("shard", "shards", 1)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        for (path, expected) in [
            (&["mailbox", "shard"][..], Some("mailbox.shards")),
            (&["mailbox", "Shards"], Some("mailbox.shards")),
            (&["shards"], Some("mailbox.shards")),
            (&["lsiten"], Some("listen")),
            (&["mailbox", "topics", "a.b", "replay_windw"], Some("mailbox.topics.\"a.b\".replay_window")),
            (&["weather"], None),
        ] {
            assert_eq!(setting(path).as_deref(), expected, "{path:?}");
        }
        assert_eq!(section(&["mailbx"]).as_deref(), Some("mailbox"));
        assert_eq!(section(&["mailbox", "topic", "orders"]).as_deref(), Some("mailbox.topics.orders"));
        assert_eq!(section(&["weather"]), None);
    }
}
