//! `cargo xtask spec`: which test holds which requirement, from the tests' own comments.

mod cases;
mod exceptions;
mod holds;
mod ids;
mod markdown;
mod status;
mod stores;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use stores::Code;
use table::{Holders, Table};

const TABLE: &str = "docs/reference/spec-table.md";
const EXCEPTIONS: &str = "docs/reference/spec-exceptions.md";
/// What is claimed about each id.
const STATUS: &str = "docs/reference/spec-status.md";
/// Where tests live.
const FOLDERS: [&str; 3] = ["crates", "xtask", "examples"];

/// Writes the table anew.
pub(crate) fn write(workspace: &Workspace) -> Result<String> {
    let table = build(workspace)?;
    workspace.write(TABLE, &table.to_string())?;
    Ok(format!("spec: {}", table.counts()))
}

/// Fails when the written table is stale, or when a claim has no test behind it.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let table = build(workspace)?;
    let faults = table.faults();
    if !faults.is_empty() {
        return Err(Failure::new(format!("{STATUS}:\n{}", faults.join("\n"))));
    }
    if workspace.read(TABLE).ok() != Some(table.to_string()) {
        return Err(Failure::new(format!("{TABLE} is stale: run `cargo xtask spec` and commit it")));
    }
    Ok(format!("spec: {}", table.counts()))
}

fn build(workspace: &Workspace) -> Result<Table> {
    let exceptions = exceptions::parse(&workspace.read(EXCEPTIONS)?)
        .map_err(|error| Failure::new(format!("{EXCEPTIONS}: {error}")))?;
    let statuses = status::parse(&workspace.read(STATUS)?)
        .map_err(|error| Failure::new(format!("{STATUS}: {error}")))?;
    let mut holders = Holders::new();
    let mut faults = Vec::new();
    let files = workspace.files()?;
    let code = Code::read(&files);
    for file in &files {
        if !FOLDERS.iter().any(|folder| Path::new(&file.path).starts_with(folder)) {
            continue;
        }
        let claims = holds::scan(file);
        faults.extend(claims.faults);
        for (id, holder) in claims.held {
            let stores = code.of(&holder);
            holders.entry(id).or_default().insert(holder, stores);
        }
    }
    faults.extend(cases::unlisted(&files, holders.values().flat_map(BTreeMap::keys)));
    if faults.is_empty() {
        Ok(Table { holders, exceptions, statuses })
    } else {
        Err(Failure::new(faults.join("\n")))
    }
}
