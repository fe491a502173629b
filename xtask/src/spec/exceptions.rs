//! Reading `docs/reference/spec-exceptions.md`: the ids that we leave on purpose.

use std::collections::BTreeMap;

use super::ids::{self, Id};
use super::markdown;

/// Why an id is not held to the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exception {
    pub(super) kind: Kind,
    pub(super) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// We do something else, and a test shows what.
    Changed,
    /// There is nothing that a test could show.
    Untestable,
}

pub(super) type Exceptions = BTreeMap<Id, Exception>;

const HEADER: [&str; 4] = ["id", "kind", "where we differ", "why"];

/// Reads the rows of the table with our header; other tables and prose are for people. The error names the line.
pub(super) fn parse(text: &str) -> Result<Exceptions, String> {
    let mut exceptions = Exceptions::new();
    for (line, cells) in markdown::rows(text, &HEADER) {
        let (ids, exception) = row(&cells).map_err(|error| format!("line {line}: {error}"))?;
        for id in ids {
            if exceptions.insert(id, exception.clone()).is_some() {
                return Err(format!("line {line}: {id} stands there twice: join the rows"));
            }
        }
    }
    Ok(exceptions)
}

fn row(cells: &[&str]) -> Result<(Vec<Id>, Exception), String> {
    let [ids, kind, _, why] = *cells else {
        return Err(format!("{} cells, not {}: fix the row", cells.len(), HEADER.len()));
    };
    let kind = match kind {
        "changed" => Kind::Changed,
        "untestable" => Kind::Untestable,
        other => return Err(format!("`{other}` is no kind: write `changed` or `untestable`")),
    };
    if why.is_empty() {
        return Err("the reason is missing: say why".to_owned());
    }
    Ok((ids::parse_list(ids)?, Exception { kind, why: why.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Title\n\n| id | kind | where we differ | why |\n|---|:--|---|---|\n";

    fn parsed(rows: &str) -> Result<Exceptions, String> {
        parse(&format!("{TABLE}{rows}"))
    }

    #[test]
    fn rows_are_read_and_other_tables_are_not() {
        let rows = "| IBX-056, IBX-070 | changed | at the limit | No retry for ever. |\n\
            | RULE-24 | untestable | all of it | It is a list. |\n\n| place | why |\n|---|---|\n| elsewhere | because |\n";
        let exceptions = parsed(rows).unwrap();
        assert_eq!(exceptions.len(), 3);
        let rule = &exceptions[&Id::parse("RULE-24").unwrap()];
        assert_eq!(*rule, Exception { kind: Kind::Untestable, why: "It is a list.".to_owned() });
    }

    #[test]
    fn bad_rows_are_named() {
        for (row, words) in [
            ("| IBX-056 | changed | at the limit |", "line 5: 3 cells"),
            ("| IBX-999 | changed | a | b |", "`IBX-999`"),
            ("| IBX-056 | maybe | a | b |", "`maybe` is no kind"),
            ("| IBX-056 | changed | a | |", "say why"),
            (
                "| IBX-056 | changed | a | b |\n| IBX-056 | changed | a | b |",
                "line 6: IBX-056 stands there twice",
            ),
        ] {
            let error = parsed(row).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
