//! Describes how tables differ from what is expected.

use std::collections::BTreeMap;

/// A fact from the catalog about an object; kind, name and text form a sentence: "table `message` is a table".
pub(super) struct Fact {
    pub(super) kind: String,
    pub(super) name: String,
    /// The aspect of the object; there is one fact per aspect.
    pub(super) aspect: String,
    pub(super) text: String,
}

/// Facts by the kind and name of their objects, then by aspect.
#[derive(Default)]
pub(super) struct Facts(BTreeMap<(String, String), BTreeMap<String, String>>);

impl Facts {
    /// Parses the file that the test has written: one tab-separated fact per line.
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

    /// Adds a fact about the function with this name, whatever its arguments.
    pub(super) fn add_to_function(&mut self, name: &str, fact: Fact) {
        let matches = |full: &&(String, String)| {
            full.0 == "function" && full.1.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
        };
        if let Some(full) = self.0.keys().find(matches).map(|(_, full)| full.clone()) {
            self.add(Fact { name: full, ..fact });
        }
    }

    fn fact(&self, kind: &str, name: &str, aspect: &str) -> Option<&str> {
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

/// Whether the table with the version exists but cannot be read.
pub(super) fn cannot_read_version(found: &Facts) -> bool {
    found.fact("table", "meta", "rights").is_some_and(|rights| !rights.contains("select"))
}

/// Describes every difference in a sentence.
pub(super) fn differences(expected: &Facts, found: &Facts) -> Vec<String> {
    let mut differences = Vec::new();
    for (thing @ (kind, name), aspects) in &expected.0 {
        match found.0.get(thing) {
            Some(others) => {
                let differing = aspects.iter().filter_map(|(aspect, fact)| {
                    let other = others.get(aspect)?;
                    (other != fact).then(|| format!("{kind} `{name}` {}", contrast(other, fact)))
                });
                differences.extend(differing);
            }
            // A missing table is reported once, not column by column.
            None if kind == "table" || found.has_table(table_of(kind, name, aspects)) => {
                differences.push(format!("{kind} `{name}` is missing"));
            }
            None => {}
        }
    }
    let added = found.0.iter().filter(|(thing, _)| !expected.0.contains_key(*thing));
    for ((kind, name), aspects) in added {
        if expected.has_table(table_of(kind, name, aspects)) {
            differences.extend(conflict(kind, aspects).map(|conflict| format!("{kind} `{name}` {conflict}")));
        }
    }
    differences
}

/// The table that an object belongs to. Objects without a table count as belonging to `meta`, which always exists.
fn table_of<'a>(kind: &str, name: &'a str, aspects: &'a BTreeMap<String, String>) -> &'a str {
    match kind {
        "column" | "constraint" => name.split('.').next().unwrap_or(name),
        "index" => aspects.get("table").map_or(name, |text| text.trim_start_matches("is on ")),
        _ => "meta",
    }
}

/// Why an addition to one of the tables may reject writes.
fn conflict(kind: &str, aspects: &BTreeMap<String, String>) -> Option<&'static str> {
    let has = |aspect: &str, text: &str| aspects.get(aspect).is_some_and(|found| found == text);
    match kind {
        "column" if has("null", "is required") && has("default", "has no default") => {
            Some("does not belong to oncebox, is required and has no default: nothing can be written")
        }
        "index" if has("uniqueness", "is unique") => {
            Some("does not belong to oncebox and is unique: it may reject writes")
        }
        "constraint" => Some("does not belong to oncebox: it may reject writes"),
        _ => None,
    }
}

/// "is integer, not bigint": common leading words are not repeated.
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
