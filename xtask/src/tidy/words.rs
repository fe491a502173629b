//! Finds banned words in identifiers, comments, messages and documents. `xtask/words.toml` lists them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;

use super::Finding;
use crate::failure::{Failure, Result};
use crate::workspace::File;

const LIST: &str = "xtask/words.toml";
const EXTENSIONS: [&str; 4] = ["rs", "sql", "toml", "md"];
/// Files that list the words, are generated from checked sources, or are history.
const SKIPPED: [&str; 6] = [
    LIST,
    "CHANGELOG.md",
    "docs/reference/cli.md",
    "docs/reference/configuration.md",
    "docs/internals/guards.md",
    "docs/reference/oncebox.toml",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    word: Vec<Word>,
    #[serde(default)]
    exception: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    /// One or two words each. The first is the name.
    forms: Vec<String>,
    /// What to write instead.
    write: String,
    /// Allowed pairs of words, of which the first is a form.
    #[serde(default)]
    fine: Vec<String>,
}

/// A file in which a word is allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    word: String,
    path: String,
    #[serde(rename = "reason")]
    _reason: String,
}

pub(super) fn check(files: &[File]) -> Result<Vec<Finding>> {
    let text = files.iter().find(|file| file.path == LIST).map_or("", |file| &file.text);
    let list = List::parse(text).map_err(|error| Failure::new(format!("{LIST}: {error}")))?;
    if let Some(error) = list.needless_exception(files) {
        return Err(Failure::new(format!("{LIST}: {error}")));
    }
    Ok(list.findings(files))
}

/// The list, prepared for the search.
struct Search<'a> {
    /// By the last word of a form: the word before it, if any, and the index in the list.
    endings: HashMap<&'a str, Vec<(Option<&'a str>, usize)>>,
    fine: HashSet<(&'a str, &'a str)>,
}

impl List {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let list: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let unnamed = |exception: &&Exception| !list.word.iter().any(|word| word.name() == exception.word);
        if let Some(exception) = list.exception.iter().find(unnamed) {
            return Err(format!("there is an exception for `{}`, which is not in the list", exception.word));
        }
        Ok(list)
    }

    fn findings(&self, files: &[File]) -> Vec<Finding> {
        let search = self.search();
        let checked = files.iter().filter(|file| is_checked(&file.path));
        let hits = checked.flat_map(|file| search.hits(&file.text).into_iter().map(move |hit| (file, hit)));
        let words = hits.map(|(file, (index, line))| (file, line, &self.word[index]));
        let banned = words.filter(|(file, _, word)| !self.allows(word.name(), &file.path));
        banned.map(|(file, line, word)| Finding::error(file, line, word.advice())).collect()
    }

    fn allows(&self, word: &str, path: &str) -> bool {
        self.exception.iter().any(|exception| exception.word == word && exception.path == path)
    }

    /// An exception whose file does not contain the word.
    fn needless_exception(&self, files: &[File]) -> Option<String> {
        let search = self.search();
        let needed = |exception: &&Exception| {
            let file = files.iter().find(|file| file.path == exception.path);
            let mut hits = file.map(|file| search.hits(&file.text)).into_iter().flatten();
            hits.any(|(index, _)| self.word[index].name() == exception.word)
        };
        let exception = self.exception.iter().find(|exception| !needed(exception))?;
        Some(format!("`{}` is not in {}: remove the exception", exception.word, exception.path))
    }

    fn search(&self) -> Search<'_> {
        let mut endings: HashMap<_, Vec<_>> = HashMap::new();
        for (index, word) in self.word.iter().enumerate() {
            for form in &word.forms {
                let (before, last) =
                    form.split_once(' ').map_or((None, &**form), |(one, two)| (Some(one), two));
                endings.entry(last).or_default().push((before, index));
            }
        }
        let fine = self.word.iter().flat_map(|word| &word.fine).filter_map(|pair| pair.split_once(' '));
        Search { endings, fine: fine.collect() }
    }
}

impl Word {
    fn name(&self) -> &str {
        self.forms.first().map_or("", String::as_str)
    }

    fn advice(&self) -> String {
        format!("`{}` is not a word of this project: write {}", self.name(), self.write)
    }
}

fn is_checked(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && !SKIPPED.contains(&path)
}

impl Search<'_> {
    /// The banned words in a text: index in the list, and line.
    fn hits(&self, text: &str) -> Vec<(usize, usize)> {
        let mut hits = Vec::new();
        let mut before_last = 0;
        // A form may continue on the next line.
        let (mut word, mut before) = (String::new(), String::new());
        for (number, line) in text.lines().enumerate() {
            for part in parts(line) {
                std::mem::swap(&mut word, &mut before);
                word.clear();
                word.push_str(part);
                word.make_ascii_lowercase();
                if hits.len() > before_last && self.fine.contains(&(before.as_str(), word.as_str())) {
                    hits.truncate(before_last);
                }
                before_last = hits.len();
                let forms = self.endings.get(word.as_str()).map_or(&[][..], Vec::as_slice);
                let matching =
                    forms.iter().filter(|(wanted, _)| wanted.is_none_or(|wanted| wanted == before));
                hits.extend(matching.map(|(_, index)| (*index, number + 1)));
            }
        }
        hits
    }
}

/// The words of a line. `ReadyTopics`, `ready_topics` and `ready topics` consist of the same two.
fn parts(line: &str) -> impl Iterator<Item = &str> {
    let runs = line.split(|character: char| !character.is_ascii_alphabetic()).filter(|run| !run.is_empty());
    runs.flat_map(|run| {
        let bytes = run.as_bytes();
        let starts = move |at: &usize| {
            let upper = bytes[*at].is_ascii_uppercase();
            let after_lower = bytes[at - 1].is_ascii_lowercase();
            // In `HTTPServer`, the last capital starts the next word.
            let before_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            upper && (after_lower || before_lower)
        };
        let mut start = 0;
        let ends = (1..run.len()).filter(starts).chain([run.len()]).collect::<Vec<_>>();
        ends.into_iter().map(move |end| &run[std::mem::replace(&mut start, end)..end])
    })
}

#[cfg(test)]
mod tests;
