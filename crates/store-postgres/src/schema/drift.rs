//! Where tables are not as they should be, in words.

use std::collections::BTreeMap;

/// Something that the catalog says about a thing; "table `message` is a table" with kind, name and text.
pub(super) struct Fact {
    pub(super) kind: String,
    pub(super) name: String,
    /// What of the thing it is about; there is one fact about each.
    pub(super) aspect: String,
    pub(super) text: String,
}

/// Facts by the kind and name of what they are about, then by aspect.
#[derive(Default)]
pub(super) struct Facts(BTreeMap<(String, String), BTreeMap<String, String>>);

impl Facts {
    /// Reads what the test has written: a fact per line, its parts divided by tabs.
    pub(super) fn parse(text: &str) -> Self {
        let mut facts = Self::default();
        for line in text.lines() {
            let mut parts = line.splitn(4, '\t').map(str::to_owned);
            let mut part = || parts.next().unwrap_or_default();
            facts.add(Fact { kind: part(), name: part(), aspect: part(), text: part() });
        }
        facts
    }

    pub(super) fn add(&mut self, fact: Fact) {
        self.0.entry((fact.kind, fact.name)).or_default().insert(fact.aspect, fact.text);
    }

    /// Adds a fact about the function of this name, whatever its arguments.
    pub(super) fn add_to_function(&mut self, name: &str, fact: Fact) {
        let is_it = |full: &&(String, String)| {
            full.0 == "function" && full.1.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
        };
        if let Some(full) = self.0.keys().find(is_it).map(|(_, full)| full.clone()) {
            self.add(Fact { name: full, ..fact });
        }
    }

    fn says(&self, kind: &str, name: &str, aspect: &str) -> Option<&str> {
        Some(self.0.get(&(kind.to_owned(), name.to_owned()))?.get(aspect)?)
    }

    fn has_table(&self, name: &str) -> bool {
        self.0.contains_key(&("table".to_owned(), name.to_owned()))
    }

    #[cfg(test)]
    pub(super) fn write(&self) -> String {
        let things = self.0.iter().flat_map(|((kind, name), aspects)| {
            // Bodies are taken from the program itself.
            let aspects = aspects.iter().filter(|(aspect, _)| *aspect != super::BODY);
            aspects.map(move |(aspect, text)| format!("{kind}\t{name}\t{aspect}\t{text}\n"))
        });
        things.collect()
    }
}

/// Whether the table that the version is in cannot be read, though it is there.
pub(super) fn may_not_read_version(found: &Facts) -> bool {
    found.says("table", "meta", "rights").is_some_and(|rights| !rights.contains("select"))
}

/// Every difference, each a sentence.
pub(super) fn differences(expected: &Facts, found: &Facts) -> Vec<String> {
    let mut told = Vec::new();
    for (thing @ (kind, name), aspects) in &expected.0 {
        match found.0.get(thing) {
            Some(others) => {
                let differing = aspects.iter().filter_map(|(aspect, fact)| {
                    let other = others.get(aspect)?;
                    (other != fact).then(|| format!("{kind} `{name}` {}", contrast(other, fact)))
                });
                told.extend(differing);
            }
            // A table that is missing is told once, not column by column.
            None if kind == "table" || found.has_table(table_of(kind, name, aspects)) => {
                told.push(format!("{kind} `{name}` is missing"));
            }
            None => {}
        }
    }
    let added = found.0.iter().filter(|(thing, _)| !expected.0.contains_key(*thing));
    for ((kind, name), aspects) in added {
        if expected.has_table(table_of(kind, name, aspects)) {
            told.extend(trouble(kind, aspects).map(|trouble| format!("{kind} `{name}` {trouble}")));
        }
    }
    told
}

/// The table that a thing belongs to. What belongs to none counts as belonging to the one that is always there.
fn table_of<'a>(kind: &str, name: &'a str, aspects: &'a BTreeMap<String, String>) -> &'a str {
    match kind {
        "column" | "constraint" => name.split('.').next().unwrap_or(name),
        "index" => aspects.get("table").map_or(name, |text| text.trim_start_matches("is on ")),
        _ => "meta",
    }
}

/// Why something that was added to a table of ours may refuse what should be written.
fn trouble(kind: &str, aspects: &BTreeMap<String, String>) -> Option<&'static str> {
    let says = |aspect: &str, text: &str| aspects.get(aspect).is_some_and(|found| found == text);
    match kind {
        "column" if says("null", "is required") && says("default", "has no default") => {
            Some("is not ours, required and without a default: nothing can be written")
        }
        "index" if says("uniqueness", "is unique") => {
            Some("is not ours and unique: it may refuse what should be written")
        }
        "constraint" => Some("is not ours: it may refuse what should be written"),
        _ => None,
    }
}

/// "is integer, not bigint": the words that both begin with are said once.
fn contrast(found: &str, expected: &str) -> String {
    let is_word = |text: &str| text.chars().all(char::is_alphabetic);
    let pairs = found.split(' ').zip(expected.split(' '));
    let same = pairs.take_while(|(one, other)| one == other && is_word(one)).count();
    let rest: Vec<_> = expected.split(' ').skip(same).collect();
    if rest.is_empty() {
        return format!("{found}, not {expected}");
    }
    format!("{found}, not {}", rest.join(" "))
}
