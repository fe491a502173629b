//! What a page says about one requirement by hand: its demand, its status, and where we differ from it and why.

use super::stores::{EVERY, Store, Stores};

/// The entry of an id, as it is written on its page.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    /// The paragraphs under the heading.
    pub(super) demand: String,
    pub(super) status: Option<Status>,
    /// What an id lacks that is held partly or open.
    pub(super) missing: Option<String>,
    /// What Oncebox does instead of what is demanded.
    pub(super) instead: Option<String>,
    pub(super) why: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    /// Every demand in it is tested, on each of these stores.
    Held(Stores),
    /// Oncebox does something else on purpose; tests show it on each of these stores.
    Changed(Stores),
    /// Some of it does not exist or is not tested.
    Partly(Stores),
    Open,
    NotTestable,
}

impl Requirement {
    /// Notes a line of the list under the demand (`Status: held (every store)`). The error says what is wrong with it.
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
                return Err(format!("`{other}` is no field: write `Status`, `Missing`, `Instead` or `Why`"));
            }
        };
        if twice { Err(format!("`{name}` is there twice: join the lines")) } else { Ok(()) }
    }

    /// What the entry lacks, or has too much of.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.demand.is_empty() {
            return Some("has no demand: write under its heading what it requires");
        }
        let Some(status) = &self.status else {
            return Some("has no status: add the line `- **Status:** …`");
        };
        match (status, self.missing.is_some()) {
            (Status::Partly(_) | Status::Open, false) => {
                return Some("is partly held or open: add `Missing`");
            }
            (Status::Held(_) | Status::Changed(_), true) => {
                return Some("lacks something: its status is `partly`");
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
            Some((word, stores)) => (word, Some(concerned(stores)?)),
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
                "`{text}` is no status: write `held (…)`, `changed (…)`, `partly (…)`, `open` or `not testable`"
            )),
        }
    }

    /// The stores on which a test must run; none for what is not claimed.
    pub(super) fn promised(&self) -> Stores {
        match self {
            Self::Held(stores) | Self::Changed(stores) => stores.clone(),
            Self::Partly(_) | Self::Open | Self::NotTestable => Stores::new(),
        }
    }

    /// Whether tests show some of it.
    pub(super) fn is_claimed(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Changed(_) | Self::Partly(_))
    }
}

fn concerned(text: &str) -> Result<Stores, String> {
    let store = |name: &str| {
        Store::parse(name.trim()).ok_or_else(|| {
            format!(
                "`{name}` is no store: write `every store`, `no store`, or names such as `embedded, postgres`"
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
        let mut entry = Requirement { demand: "It works.".to_owned(), ..Requirement::default() };
        for (name, text) in fields {
            entry.field(name, text).unwrap();
        }
        entry
    }

    #[test]
    fn statuses_are_read() {
        let parsed = |text: &str| Status::parse(text).unwrap();
        assert_eq!(parsed("held (every store)"), Status::Held(EVERY.into()));
        assert_eq!(parsed("changed (no store)"), Status::Changed(Stores::new()));
        let stores = Stores::from([Store::Postgres, Store::Pgbouncer]);
        assert_eq!(parsed("partly (postgres, pgbouncer)"), Status::Partly(stores));
        assert_eq!((parsed("open"), parsed("not testable")), (Status::Open, Status::NotTestable));
    }

    #[test]
    fn bad_fields_are_named() {
        for (name, text, words) in [
            ("Status", "done", "`done` is no status"),
            ("Status", "held", "names no stores"),
            ("Status", "open (every store)", "is no status"),
            ("Status", "held (oracle)", "`oracle` is no store"),
            ("Why", "", "`Why` is empty"),
            ("Because", "It is so.", "`Because` is no field"),
        ] {
            let error = Requirement::default().field(name, text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(entry(&[("Why", "So.")]).field("Why", "So.").unwrap_err().contains("twice"));
    }

    #[test]
    fn an_entry_is_complete_or_says_what_it_lacks() {
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
            assert_eq!(entry(good).fault(), None, "{good:?}");
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
            let fault = entry(bad).fault().unwrap();
            assert!(fault.contains(words), "{bad:?}: {fault}");
        }
        let silent = Requirement { demand: String::new(), ..entry(&[held]) };
        assert!(silent.fault().unwrap().contains("no demand"));
    }
}
