//! The entry of a requirement, as written by hand: its text, its status, and how and why Oncebox differs from it.

use super::stores::{EVERY, Store, Stores};

/// The entry of an id on its page.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    /// The paragraphs under the heading.
    pub(super) text: String,
    pub(super) status: Option<Status>,
    /// What is missing, if the status is partly or open.
    pub(super) missing: Option<String>,
    /// What Oncebox does instead.
    pub(super) instead: Option<String>,
    pub(super) why: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    /// All of it is tested on each of these stores.
    Held(Stores),
    /// Oncebox deliberately does something else, which is tested on each of these stores.
    Changed(Stores),
    /// Some of it is not implemented or not tested.
    Partly(Stores),
    Open,
    NotTestable,
}

impl Requirement {
    /// Adds a field, such as `Status: held (every store)`. The error says what is wrong with it.
    pub(super) fn field(&mut self, name: &str, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err(format!("`{name}` is empty: complete it or remove the line"));
        }
        let text = text.to_owned();
        let twice = match name {
            "Status" => self.status.replace(Status::parse(&text)?).is_some(),
            "Missing" => self.missing.replace(text).is_some(),
            "Instead" => self.instead.replace(text).is_some(),
            "Why" => self.why.replace(text).is_some(),
            other => {
                return Err(format!(
                    "`{other}` is not a field: write `Status`, `Missing`, `Instead` or `Why`"
                ));
            }
        };
        if twice { Err(format!("`{name}` occurs twice: merge the lines")) } else { Ok(()) }
    }

    /// What is missing or superfluous in the entry.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if self.text.is_empty() {
            return Some("has no text: describe the requirement below its heading");
        }
        let Some(status) = &self.status else {
            return Some("has no status: add the line `- **Status:** …`");
        };
        match (status, self.missing.is_some()) {
            (Status::Partly(_) | Status::Open, false) => {
                return Some("is partly held or open: add `Missing`");
            }
            (Status::Held(_) | Status::Changed(_), true) => {
                return Some("has a `Missing`: its status is `partly`");
            }
            _ => {}
        }
        match (status, self.instead.is_some(), self.why.is_some()) {
            (Status::Held(_), true, _) => Some("differs: its status is `changed`"),
            (Status::Changed(_), false, _) => Some("is changed: add `Instead`"),
            (Status::NotTestable, _, false) => Some("is not testable: add `Why`"),
            (_, true, false) => Some("differs without a reason: add `Why`"),
            (Status::NotTestable, ..) | (_, true, true) | (_, false, false) => None,
            (_, false, true) => Some("has a `Why` without an `Instead`"),
        }
    }
}

impl Status {
    fn parse(text: &str) -> Result<Self, String> {
        let (word, stores) = match text.strip_suffix(')').and_then(|text| text.split_once(" (")) {
            Some((word, stores)) => (word, Some(parse_stores(stores)?)),
            None => (text, None),
        };
        match (word, stores) {
            ("held", Some(stores)) => Ok(Self::Held(stores)),
            ("changed", Some(stores)) => Ok(Self::Changed(stores)),
            ("partly", Some(stores)) => Ok(Self::Partly(stores)),
            ("open", None) => Ok(Self::Open),
            ("not testable", None) => Ok(Self::NotTestable),
            ("held" | "changed" | "partly", None) => {
                Err(format!("`{text}` names no stores: write `{text} (every store)`"))
            }
            _ => Err(format!(
                "`{text}` is not a status: write `held (…)`, `changed (…)`, `partly (…)`, `open` or `not testable`"
            )),
        }
    }

    /// The stores on which a test must run; none if nothing is claimed.
    pub(super) fn claimed_stores(&self) -> Stores {
        match self {
            Self::Held(stores) | Self::Changed(stores) => stores.clone(),
            Self::Partly(_) | Self::Open | Self::NotTestable => Stores::new(),
        }
    }

    /// Whether the status claims that tests exist.
    pub(super) fn is_claimed(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Changed(_) | Self::Partly(_))
    }
}

fn parse_stores(text: &str) -> Result<Stores, String> {
    let store = |name: &str| {
        Store::parse(name.trim()).ok_or_else(|| {
            format!(
                "`{name}` is not a store: write `every store`, `no store`, or names such as `embedded, postgres`"
            )
        })
    };
    match text {
        "every store" => Ok(EVERY.into()),
        "no store" => Ok(Stores::new()),
        names => names.split(',').map(store).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[(&str, &str)]) -> Requirement {
        let mut entry = Requirement { text: "It works.".to_owned(), ..Requirement::default() };
        for (name, text) in fields {
            entry.field(name, text).unwrap();
        }
        entry
    }

    #[test]
    fn parses_statuses() {
        let parsed = |text: &str| Status::parse(text).unwrap();
        assert_eq!(parsed("held (every store)"), Status::Held(EVERY.into()));
        assert_eq!(parsed("changed (no store)"), Status::Changed(Stores::new()));
        let stores = Stores::from([Store::Postgres, Store::Pgbouncer]);
        assert_eq!(parsed("partly (postgres, pgbouncer)"), Status::Partly(stores));
        assert_eq!((parsed("open"), parsed("not testable")), (Status::Open, Status::NotTestable));
    }

    #[test]
    fn errors_name_invalid_fields() {
        for (name, text, words) in [
            ("Status", "done", "`done` is not a status"),
            ("Status", "held", "names no stores"),
            ("Status", "open (every store)", "is not a status"),
            ("Status", "held (oracle)", "`oracle` is not a store"),
            ("Why", "", "`Why` is empty"),
            ("Because", "It is so.", "`Because` is not a field"),
        ] {
            let error = Requirement::default().field(name, text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(entry(&[("Why", "So.")]).field("Why", "So.").unwrap_err().contains("twice"));
    }

    #[test]
    fn incomplete_entries_are_reported() {
        let (held, changed, partly) = (
            ("Status", "held (no store)"),
            ("Status", "changed (no store)"),
            ("Status", "partly (no store)"),
        );
        let (open, untestable) = (("Status", "open"), ("Status", "not testable"));
        let (missing, instead, why) = (("Missing", "A."), ("Instead", "B."), ("Why", "C."));
        for good in [
            &[held][..],
            &[changed, instead, why],
            &[partly, missing],
            &[partly, missing, instead, why],
            &[open, missing],
            &[open, missing, instead, why],
            &[untestable, why],
        ] {
            assert_eq!(entry(good).problem(), None, "{good:?}");
        }
        for (bad, words) in [
            (&[][..], "no status"),
            (&[held, missing], "its status is `partly`"),
            (&[held, instead, why], "its status is `changed`"),
            (&[changed, why], "add `Instead`"),
            (&[changed, instead], "add `Why`"),
            (&[partly], "add `Missing`"),
            (&[open], "add `Missing`"),
            (&[open, missing, why], "without an `Instead`"),
            (&[untestable, instead], "add `Why`"),
        ] {
            let problem = entry(bad).problem().unwrap();
            assert!(problem.contains(words), "{bad:?}: {problem}");
        }
        let empty = Requirement { text: String::new(), ..entry(&[held]) };
        assert!(empty.problem().unwrap().contains("no text"));
    }
}
