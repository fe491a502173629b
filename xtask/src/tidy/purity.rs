//! Checks that the core reads no clock, does no I/O and uses no async runtime.

use syn::visit::Visit;
use syn::{Ident, ItemUse, UseTree};

use super::Finding;
use super::manifest::{self, Renames};
use crate::text::has_word;
use crate::workspace::File;

const SOURCES: &str = "crates/core/src/";
const MANIFEST: &str = "crates/core/Cargo.toml";
const WORDS: [&str; 7] =
    ["SystemTime", "Instant::now", "tokio", "async_std", "std::thread", "std::fs", "std::net"];
const RUNTIMES: [&str; 6] =
    ["tokio", "async-std", "async-executor", "async-global-executor", "async-io", "smol"];

pub(super) fn check(file: &File) -> Vec<Finding> {
    if file.path == MANIFEST {
        check_manifest(file)
    } else if file.path.starts_with(SOURCES) && file.is_rust() {
        let mut findings = check_text(file);
        findings.extend(check_imports(file));
        findings
    } else {
        Vec::new()
    }
}

fn check_text(file: &File) -> Vec<Finding> {
    let found = |line: &str| WORDS.into_iter().find(|word| has_word(line, word));
    file.lines().filter_map(|(number, line)| found(line).map(|word| finding(file, number, word))).collect()
}

fn finding(file: &File, line: usize, word: &str) -> Finding {
    let text = format!(
        "`{word}` is not allowed in the core: take the time as an argument and leave I/O to the stores"
    );
    Finding::error(file, line, text)
}

/// Finds the same paths in braces: `use std::{fs, net}`. A file that does not parse is reported with the sizes.
fn check_imports(file: &File) -> Vec<Finding> {
    let mut imports = Imports::default();
    if let Ok(syntax) = syn::parse_file(&file.text) {
        imports.visit_file(&syntax);
    }
    let problems = imports.paths.iter().filter_map(|(line, path)| {
        let word = WORDS.into_iter().find(|word| word == path)?;
        let seen_as_text = file.text.lines().nth(line - 1).is_some_and(|text| has_word(text, word));
        (!seen_as_text).then(|| finding(file, *line, word))
    });
    problems.collect()
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let manifest = manifest::read(&file.text, &Renames::new()).unwrap_or_default();
    let runtimes = manifest.dependencies.iter().filter(|found| RUNTIMES.contains(&found.package.as_str()));
    runtimes
        .map(|found| {
            let text = format!("the core depends on no async runtime: remove `{}`", found.package);
            Finding::error(file, found.line, text)
        })
        .collect()
}

/// Every imported path and its prefixes, each with the line of its last name.
#[derive(Default)]
struct Imports {
    paths: Vec<(usize, String)>,
}

impl Imports {
    fn tree(&mut self, start: &str, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                let start = self.add(start, &path.ident);
                self.tree(&format!("{start}::"), &path.tree);
            }
            UseTree::Name(name) => drop(self.add(start, &name.ident)),
            UseTree::Rename(rename) => drop(self.add(start, &rename.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(start, item)),
            UseTree::Glob(_) => {}
        }
    }

    fn add(&mut self, start: &str, name: &Ident) -> String {
        let path = format!("{start}{name}");
        self.paths.push((name.span().start().line, path.clone()));
        path
    }
}

impl Visit<'_> for Imports {
    fn visit_item_use(&mut self, item: &ItemUse) {
        self.tree("", &item.tree);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_core_uses_no_clock_io_or_runtime() {
        assert_eq!(lines("crates/core/src/a.rs", "use std::fs;\nfn a() {}\nuse tokio::sync;\n"), [1, 3]);
        assert_eq!(lines("crates/core/src/a.rs", "use std::{\n    fmt,\n    net::IpAddr,\n};\n"), [3]);
        assert_eq!(lines("crates/core/src/a.rs", "use std::{thread as t};\n"), [1]);
        assert_eq!(lines("crates/core/src/a.rs", "use std::fmt;\nuse crate::fs;\n"), [0; 0]);
        assert_eq!(lines("crates/system/src/a.rs", "use std::fs;\n"), [0; 0]);
    }

    #[test]
    fn the_core_depends_on_no_runtime() {
        let text = "[package]\nname = \"oncebox-core\"\n[dev-dependencies]\ntokio = \"1\"\nbytes = \"1\"\n";
        assert_eq!(lines(MANIFEST, text), [4]);
    }
}
