//! `cargo xtask tidy`: checks of the tree beyond those of the compiler. Each check is a module; this one runs them and
//! counts their findings.

mod cycles;
mod deny;
mod directions;
mod layout;
mod leftovers;
mod links;
mod logs;
mod machine;
mod manifest;
mod purity;
mod sizes;
mod types;
mod words;

use std::fmt;

use crate::failure::{Failure, Result};
use crate::workspace::{File, Workspace};

/// A problem and its location.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    severity: Severity,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

/// The checks of single files.
const CHECKS: [fn(&File) -> Vec<Finding>; 6] =
    [layout::check, leftovers::check, logs::check, machine::check, purity::check, sizes::check];

pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let files = workspace.files()?;
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|file| CHECKS.iter().flat_map(|check| check(file))).collect();
    findings.extend(cycles::check(&files));
    findings.extend(directions::check(&files));
    findings.extend(deny::check(workspace)?);
    findings.extend(links::check(&files));
    findings.extend(words::check(&files)?);
    findings.extend(types::check(&files));
    findings.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let summary = format!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    if errors == 0 { Ok(summary) } else { Err(Failure::new(summary)) }
}

impl Finding {
    fn error(file: &File, line: usize, text: impl Into<String>) -> Self {
        Self::at(&file.path, line, text)
    }

    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, severity: Severity::Error, text: text.into() }
    }

    fn warning(file: &File, line: usize, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, line, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(formatter, "{}:{}: {severity}{}", self.path, self.line, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_starts_with_its_location() {
        let file = File { path: "a.rs".to_owned(), text: String::new() };
        assert_eq!(Finding::error(&file, 3, "bad: fix it").to_string(), "a.rs:3: bad: fix it");
        assert_eq!(Finding::warning(&file, 4, "long").to_string(), "a.rs:4: warning: long");
    }

    /// The tables of forbidden words must not trigger the checks that use them.
    #[test]
    fn the_checks_do_not_flag_themselves() {
        let files = Workspace::locate().unwrap().files().unwrap();
        let own = files.iter().filter(|file| file.path.starts_with("xtask/"));
        let findings: Vec<Finding> =
            own.flat_map(|file| CHECKS.iter().flat_map(|check| check(file))).collect();
        assert_eq!(findings, []);
    }
}
