//! Finds leftovers of work in progress. The words are concatenated from parts, so that this file does not contain them.

use super::Finding;
use crate::text::has_word;
use crate::workspace::File;

const MACROS: [&str; 3] = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("db", "g!")];
const FIX: &str = concat!("FIX", "ME");
const LATER: &str = concat!("TO", "DO");
const IGNORED: &str = concat!("#[ig", "nore]");

/// Checks all files except Markdown, which may mention these words.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if std::path::Path::new(&file.path).extension().is_some_and(|extension| extension == "md") {
        return Vec::new();
    }
    file.lines()
        .filter_map(|(number, line)| problem(line).map(|text| Finding::error(file, number, text)))
        .collect()
}

fn problem(line: &str) -> Option<String> {
    // Examples in doc comments may omit code.
    let in_docs = line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
    if let Some(name) = MACROS.iter().find(|name| !in_docs && has_word(line, name)) {
        return Some(format!("`{name}` is left over: finish the work or return an error"));
    }
    if has_word(line, FIX) {
        return Some(format!("{FIX}: fix it, or open an issue and write {LATER} with its number"));
    }
    if has_word(line, LATER) && !has_word(line, "ADR") && !names_issue(line) {
        return Some(format!(
            "{LATER} without a reference: name an ADR or an issue (`#12`) on the same line"
        ));
    }
    line.contains(IGNORED)
        .then(|| "a test is ignored without a reason: write `#[ignore = \"why\"]`".to_owned())
}

fn names_issue(line: &str) -> bool {
    line.split('#').skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found() {
        for line in [
            format!("    {}()", MACROS[0]),
            format!("let x = {}(y);", MACROS[2]),
            format!("// {FIX}: later"),
            format!("// {LATER}: later"),
            IGNORED.to_owned(),
        ] {
            assert!(problem(&line).is_some(), "{line}");
        }
    }

    #[test]
    fn references_and_reasons_pass() {
        for line in [
            format!("// {LATER}(#12): later"),
            format!("// {LATER}: see ADR 0003"),
            format!("    /// # {}()", MACROS[1]),
            format!("let MAS{LATER}N = 1;"),
            "#[ignore = \"needs a server\"]".to_owned(),
            "#[derive(Debug)]".to_owned(),
        ] {
            assert_eq!(problem(&line), None, "{line}");
        }
    }
}
