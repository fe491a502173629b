//! The TOML file. Every error names its line.

use std::collections::BTreeSet;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Assignment, Target, dotted, is_section, unknown};
use crate::config::nearest;
use crate::config::origin::Origin;
use crate::config::problem::Problems;
use crate::config::raw::Raw;
use crate::config::redrive;
use crate::config::sections::RedriveRule;
use crate::config::unit::one_line;

const FILE_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn read(path: &Path, text: &str, problems: &mut Problems) -> (Vec<Assignment>, Vec<RedriveRule>) {
    let shown = one_line(&path.to_string_lossy());
    if text.len() > FILE_BYTES_MAX {
        problems.add(format!(
            "{shown} has {} bytes, but at most {FILE_BYTES_MAX} are allowed: shorten it",
            text.len()
        ));
        return (Vec::new(), Vec::new());
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    let starts = text.match_indices('\n').map(|(byte, _)| byte + 1).collect();
    let mut file =
        File { path, starts, broken: BTreeSet::new(), assignments: Vec::new(), rules: Vec::new(), problems };
    for error in errors {
        let line = file.line(error.span().map_or(text.len(), |span| span.start));
        // The parser guesses the rest of a broken line, so only its first error is reported; and only the message of
        // the parser, because the line may contain a password.
        if file.broken.insert(line) {
            file.problems.add(format!("{shown}, line {line}: {}", error.message()));
        }
    }
    file.table(&mut Vec::new(), table.get_ref());
    (file.assignments, file.rules)
}

struct File<'a> {
    path: &'a Path,
    /// Offset of each line after the first.
    starts: Vec<usize>,
    /// Lines that are not valid TOML.
    broken: BTreeSet<usize>,
    assignments: Vec<Assignment>,
    rules: Vec<RedriveRule>,
    problems: &'a mut Problems,
}

impl File<'_> {
    fn table<'t>(&mut self, path: &mut Vec<&'t str>, table: &'t DeTable<'_>) {
        for (name, value) in table {
            path.push(name.get_ref());
            let line = self.line(name.span().start);
            self.entry(path, value.get_ref(), line);
            path.pop();
        }
    }

    fn entry<'t>(&mut self, path: &mut Vec<&'t str>, value: &'t DeValue<'_>, line: usize) {
        let origin = Origin::File { path: self.path.to_owned(), line };
        let broken = self.broken.contains(&line);
        if *path == redrive::PATH && !broken {
            let (starts, file) = (&self.starts, self.path);
            let at = |byte| Origin::File { path: file.to_owned(), line: line_of(starts, byte) };
            self.rules = redrive::read(value, &origin, at, self.problems);
            return;
        }
        match (Target::find(path), value) {
            (Some(target), _) => {
                let raw = if broken { Raw::Broken } else { Raw::of(value) };
                self.assignments.push(Assignment { target, raw, origin });
            }
            (None, DeValue::Table(table)) if is_section(path) => self.table(path, table),
            (None, _) if broken => {}
            (None, DeValue::Table(_)) => {
                let fault = match nearest::section(path) {
                    Some(name) => format!("is not a section: did you mean {name}?"),
                    None => "is not a section: remove it, or find its name in the configuration reference"
                        .to_owned(),
                };
                self.problems.at(&dotted(path), &origin, &fault);
            }
            (None, _) => unknown(path, &origin, self.problems),
        }
    }

    /// The line of a byte offset, from 1.
    fn line(&self, byte: usize) -> usize {
        line_of(&self.starts, byte)
    }
}

fn line_of(starts: &[usize], byte: usize) -> usize {
    1 + starts.partition_point(|start| *start <= byte)
}
