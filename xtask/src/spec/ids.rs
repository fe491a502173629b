//! Requirement ids: families, parsing, and lists of ids.

use std::fmt;

/// Requirements with a common prefix, numbered from 1.
struct Family {
    /// The page of its requirements in `docs/reference/requirements`.
    page: &'static str,
    prefix: &'static str,
    digits: usize,
    last: u16,
}

const FAMILIES: [Family; 8] = [
    Family { page: "inbox", prefix: "IBX-", digits: 3, last: 130 },
    Family { page: "commands", prefix: "CMD-", digits: 2, last: 20 },
    Family { page: "ledger", prefix: "LDG-", digits: 2, last: 13 },
    Family { page: "mailbox", prefix: "MBX-I-", digits: 1, last: 17 },
    Family { page: "mailbox", prefix: "MBX-P-", digits: 1, last: 9 },
    Family { page: "mailbox", prefix: "MBX-C-", digits: 1, last: 12 },
    Family { page: "mailbox", prefix: "MBX-G-", digits: 1, last: 10 },
    Family { page: "rules", prefix: "RULE-", digits: 2, last: 32 },
];

/// One requirement. Ordered by family, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    family: usize,
    number: u16,
}

impl Id {
    /// Every id of a family, in order.
    fn of_family(family: usize) -> impl Iterator<Item = Self> {
        (1..=FAMILIES[family].last).map(move |number| Self { family, number })
    }

    /// Every id, in order.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..FAMILIES.len()).flat_map(Self::of_family)
    }

    /// The page that has its entry.
    pub(super) fn page(self) -> &'static str {
        FAMILIES[self.family].page
    }

    /// Parses an id. Numbers have a fixed width: `IBX-7` is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let family = FAMILIES.iter().position(|family| text.starts_with(family.prefix))?;
        let number = text[FAMILIES[family].prefix.len()..].parse().ok()?;
        let id = Self { family, number };
        ((1..=FAMILIES[family].last).contains(&number) && id.to_string() == text).then_some(id)
    }

    fn until(self, end: Self) -> Option<impl Iterator<Item = Self>> {
        let ordered = self.family == end.family && self.number < end.number;
        ordered.then(|| (self.number..=end.number).map(move |number| Self { number, ..self }))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Family { prefix, digits, .. } = FAMILIES[self.family];
        write!(formatter, "{prefix}{:0digits$}", self.number)
    }
}

/// Whether a text starts with the prefix of a family.
pub(super) fn starts_like_id(text: &str) -> bool {
    FAMILIES.iter().any(|family| text.starts_with(family.prefix))
}

/// Parses ids and ranges (`IBX-030…IBX-033` or with two dots), separated by commas, with an optional full stop.
/// The error names the invalid part.
pub(super) fn parse_list(text: &str) -> Result<Vec<Id>, String> {
    let text = text.trim();
    let mut ids = Vec::new();
    for part in text.strip_suffix('.').unwrap_or(text).split(',').map(str::trim) {
        ids.extend(parse_part(part).ok_or_else(|| {
            format!("`{part}` is neither an id nor a range: write ids such as IBX-007, separated by commas")
        })?);
    }
    Ok(ids)
}

fn parse_part(part: &str) -> Option<Vec<Id>> {
    match part.split_once('…').or_else(|| part.split_once("..")) {
        Some((start, end)) => Some(Id::parse(start.trim())?.until(Id::parse(end.trim())?)?.collect()),
        None => Id::parse(part).map(|id| vec![id]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> String {
        parse_list(text).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ids_have_one_form() {
        for good in ["IBX-001", "IBX-130", "CMD-20", "LDG-13", "MBX-I-17", "MBX-G-1", "RULE-24"] {
            assert_eq!(Id::parse(good).unwrap().to_string(), good);
        }
        for bad in
            ["IBX-1", "IBX-131", "IBX-000", "CMD-+1", "CMD-021", "MBX-I-01", "MBX-X-1", "ABC-1", "IBX-", ""]
        {
            assert_eq!(Id::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn lists_hold_ids_and_ranges() {
        assert_eq!(listed("IBX-046, RULE-05."), "IBX-046 RULE-05");
        assert_eq!(listed("IBX-009…IBX-011, CMD-01"), "IBX-009 IBX-010 IBX-011 CMD-01");
        assert_eq!(listed(" MBX-I-1 .. MBX-I-3. "), "MBX-I-1 MBX-I-2 MBX-I-3");
    }

    #[test]
    fn errors_name_the_invalid_id() {
        for bad in
            ["", "IBX-046,", "IBX-046 IBX-047", "IBX-999", "IBX-011…IBX-009", "IBX-001…CMD-02", "IBX-001.."]
        {
            parse_list(bad).unwrap_err();
        }
        assert!(parse_list("IBX-001, IBX-2").unwrap_err().starts_with("`IBX-2` is neither"));
    }

    #[test]
    fn families_list_all_their_ids() {
        assert_eq!(Id::all().count(), 243);
        assert_eq!(Id::parse("MBX-G-10").unwrap().page(), "mailbox");
    }
}
