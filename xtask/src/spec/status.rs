//! Reading `docs/reference/spec-status.md`: what is claimed about each id.

use std::collections::BTreeMap;

use super::ids::{self, Id};
use super::markdown;
use super::stores::{EVERY, Store, Stores};

/// A claim about an id. What is not listed is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) state: State,
    /// The stores that it concerns: each must run a test of a held id.
    pub(super) stores: Stores,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Every demand in it is tested, on every store that it concerns.
    Held,
    /// Some of it is not there or not tested; the text says what.
    Partly(String),
}

pub(super) type Statuses = BTreeMap<Id, Status>;

const HEADER: [&str; 4] = ["id", "status", "stores", "what is missing"];

/// Reads the rows of all tables with our header. The error names the line.
pub(super) fn parse(text: &str) -> Result<Statuses, String> {
    let mut statuses = Statuses::new();
    for (line, cells) in markdown::rows(text, &HEADER) {
        let (ids, status) = row(&cells).map_err(|error| format!("line {line}: {error}"))?;
        for id in ids {
            if statuses.insert(id, status.clone()).is_some() {
                return Err(format!("line {line}: {id} stands there twice: join the rows"));
            }
        }
    }
    Ok(statuses)
}

fn row(cells: &[&str]) -> Result<(Vec<Id>, Status), String> {
    let [ids, state, stores, missing] = *cells else {
        return Err(format!("{} cells, not {}: fix the row", cells.len(), HEADER.len()));
    };
    let state = match (state, missing) {
        ("held", "") => State::Held,
        ("held", _) => return Err("what is held misses nothing: write `partly` or empty the cell".to_owned()),
        ("partly", "") => return Err("say what is missing".to_owned()),
        ("partly", missing) => State::Partly(missing.to_owned()),
        (other, _) => return Err(format!("`{other}` is no status: write `held` or `partly`")),
    };
    Ok((ids::parse_list(ids)?, Status { state, stores: concerned(stores)? }))
}

fn concerned(cell: &str) -> Result<Stores, String> {
    let store = |name: &str| {
        Store::parse(name.trim()).ok_or_else(|| {
            format!("`{name}` is no store: write `every`, `none`, or names such as `embedded, postgres`")
        })
    };
    match cell {
        "every" => Ok(EVERY.into()),
        "none" => Ok(Stores::new()),
        names => names.split(',').map(store).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Title\n\n| id | status | stores | what is missing |\n|---|---|---|---|\n";

    fn parsed(rows: &str) -> Result<Statuses, String> {
        parse(&format!("{TABLE}{rows}"))
    }

    #[test]
    fn claims_are_read() {
        let rows = "| IBX-001…IBX-003 | held | every | |\n| CMD-08 | partly | postgres, pgbouncer | Names of tables. |\n\
            | IBX-009 | held | none | |\n";
        let statuses = parsed(rows).unwrap();
        assert_eq!(statuses.len(), 5);
        let of = |id| &statuses[&Id::parse(id).unwrap()];
        assert_eq!(*of("IBX-002"), Status { state: State::Held, stores: EVERY.into() });
        assert_eq!(of("CMD-08").state, State::Partly("Names of tables.".to_owned()));
        assert_eq!(of("CMD-08").stores, Stores::from([Store::Postgres, Store::Pgbouncer]));
        assert_eq!(of("IBX-009").stores, Stores::new());
    }

    #[test]
    fn bad_rows_are_named() {
        for (row, words) in [
            ("| IBX-001 | held | every |", "line 5: 3 cells"),
            ("| IBX-001 | done | every | |", "`done` is no status"),
            ("| IBX-001 | held | every | A lot. |", "misses nothing"),
            ("| IBX-001 | partly | every | |", "say what is missing"),
            ("| IBX-001 | held | oracle | |", "`oracle` is no store"),
            ("| IBX-001 | held | | |", "is no store"),
            ("| IBX-999 | held | every | |", "`IBX-999`"),
            (
                "| IBX-001 | held | every | |\n| IBX-001 | held | every | |",
                "line 6: IBX-001 stands there twice",
            ),
        ] {
            let error = parsed(row).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
