//! `cargo xtask spec`: which test holds which requirement, from the tests' own comments.

mod cases;
mod exceptions;
mod holds;
mod ids;
mod table;

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use ids::Id;
use table::{Holders, Table};

const TABLE: &str = "docs/reference/spec-table.md";
const EXCEPTIONS: &str = "docs/reference/spec-exceptions.md";
/// The ids that are claimed to be done: ids or ranges, `#` starts a comment.
const DONE: &str = "docs/reference/spec-done.txt";
/// Where tests live.
const FOLDERS: [&str; 3] = ["crates", "xtask", "examples"];

/// Writes the table anew.
pub(crate) fn write(workspace: &Workspace) -> Result<String> {
    let table = build(workspace)?;
    workspace.write(TABLE, &table.to_string())?;
    Ok(format!("spec: {}", table.counts()))
}

/// Fails when the written table is stale, or when an id that is claimed done has no test.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let table = build(workspace)?;
    let done = parse_done(&workspace.read(DONE)?).map_err(|error| Failure::new(format!("{DONE}:{error}")))?;
    let owed: Vec<String> = done.iter().filter(|id| !table.is_settled(**id)).map(Id::to_string).collect();
    if !owed.is_empty() {
        let ids = owed.join(", ");
        return Err(Failure::new(format!(
            "claimed done in {DONE} but held by no test: {ids}; write the tests"
        )));
    }
    if workspace.read(TABLE).ok() != Some(table.to_string()) {
        return Err(Failure::new(format!("{TABLE} is stale: run `cargo xtask spec` and commit it")));
    }
    Ok(format!("spec: {}", table.counts()))
}

fn build(workspace: &Workspace) -> Result<Table> {
    let exceptions = exceptions::parse(&workspace.read(EXCEPTIONS)?)
        .map_err(|error| Failure::new(format!("{EXCEPTIONS}: {error}")))?;
    let mut holders = Holders::new();
    let mut faults = Vec::new();
    let files = workspace.files()?;
    for file in &files {
        if !FOLDERS.iter().any(|folder| Path::new(&file.path).starts_with(folder)) {
            continue;
        }
        let claims = holds::scan(file);
        faults.extend(claims.faults);
        for (id, holder) in claims.held {
            holders.entry(id).or_default().insert(holder);
        }
    }
    faults.extend(cases::unlisted(&files, holders.values().flatten()));
    if faults.is_empty() { Ok(Table { holders, exceptions }) } else { Err(Failure::new(faults.join("\n"))) }
}

fn parse_done(text: &str) -> std::result::Result<Vec<Id>, String> {
    let mut done = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if !entry.is_empty() {
            done.extend(ids::parse_list(entry).map_err(|error| format!("{}: {error}", index + 1))?);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_ids_are_read_past_comments() {
        let done = parse_done("# Ids.\n\nIBX-001…IBX-003  # The key.\nCMD-01\n").unwrap();
        assert_eq!(
            done.iter().map(Id::to_string).collect::<Vec<_>>(),
            ["IBX-001", "IBX-002", "IBX-003", "CMD-01"]
        );
        assert!(parse_done("\nIBX-1\n").unwrap_err().starts_with("2: `IBX-1`"));
    }
}
