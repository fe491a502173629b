//! `cargo xtask tidy`: what the compiler does not check about the tree. Each check is one file; this one runs
//! them and counts what they find.

mod deny;
mod directions;
mod layout;
mod leftovers;
mod logs;
mod machine;
mod manifest;
mod purity;
mod ratchet;
mod sizes;
mod types;
mod words;

use std::fmt;

use crate::failure::{Failure, Result};
use crate::workspace::{File, Workspace};
use ratchet::Section;

/// Something to change, and where.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    weight: Weight,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Error,
    Warning,
}

/// The checks that look at one file at a time.
const CHECKS: [fn(&File) -> Vec<Finding>; 6] =
    [layout::check, leftovers::check, logs::check, machine::check, purity::check, sizes::check];

pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let files = workspace.files()?;
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|file| CHECKS.iter().flat_map(|check| check(file))).collect();
    findings.extend(directions::check(&files));
    findings.extend(deny::check(workspace)?);
    findings.extend(ratchet::check(&workspace.read(ratchet::PATH)?, &counted(&files)?)?);
    findings.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.weight == Weight::Error).count();
    let closing = format!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    if errors == 0 { Ok(closing) } else { Err(Failure::new(closing)) }
}

/// Writes today's counts to the ratchet's file.
pub(crate) fn bless(workspace: &Workspace) -> Result<String> {
    let sections = counted(&workspace.files()?)?;
    workspace.write(ratchet::PATH, &ratchet::text(&sections))?;
    let counts: Vec<String> = sections.iter().map(ToString::to_string).collect();
    Ok(format!("tidy: {} has {}", ratchet::PATH, counts.join(", ")))
}

/// What may become fewer and not more.
fn counted(files: &[File]) -> Result<Vec<Section>> {
    let [code, docs] = words::sections(files)?;
    Ok(vec![code, docs, types::section(files)])
}

impl Finding {
    fn error(file: &File, line: usize, text: impl Into<String>) -> Self {
        Self::at(&file.path, line, text)
    }

    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, weight: Weight::Error, text: text.into() }
    }

    fn warning(file: &File, line: usize, text: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, ..Self::error(file, line, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = if self.weight == Weight::Warning { "warning: " } else { "" };
        write!(formatter, "{}:{}: {weight}{}", self.path, self.line, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_its_place_first() {
        let file = File { path: "a.rs".to_owned(), text: String::new() };
        assert_eq!(Finding::error(&file, 3, "bad: fix it").to_string(), "a.rs:3: bad: fix it");
        assert_eq!(Finding::warning(&file, 4, "long").to_string(), "a.rs:4: warning: long");
    }

    /// The tables of forbidden words must not be found by the checks that use them.
    #[test]
    fn the_checks_do_not_flag_themselves() {
        let files = Workspace::locate().unwrap().files().unwrap();
        let own = files.iter().filter(|file| file.path.starts_with("xtask/"));
        let findings: Vec<Finding> =
            own.flat_map(|file| CHECKS.iter().flat_map(|check| check(file))).collect();
        assert_eq!(findings, []);
    }
}
