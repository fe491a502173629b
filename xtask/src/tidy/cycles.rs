//! Finds modules of a crate that depend on each other in a cycle.
//!
//! At every level of the module tree, each sibling stands for its whole subtree. It depends on another one if one of its
//! files names something there by a path with `crate`, `super` or `self`, also by a name that a `use` brings elsewhere. A
//! module and its own ancestors may name each other. Tests do not count. Names from glob imports are not followed.

mod paths;

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::workspace::File;
use paths::{Path, Paths};

/// The place of a module: the names from the root of its crate.
type Module = Vec<String>;

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for file in files {
        if let Some((name, module)) = module_of(&file.path) {
            let new = || Source { file: &file.path, paths: Paths::default() };
            // A package with a library and a program has two roots.
            crates.entry(name).or_default().0.entry(module).or_insert_with(new).paths.read(&file.text);
        }
    }
    crates.values_mut().for_each(Crate::remove_tests);
    crates.values().flat_map(Crate::findings).collect()
}

/// The crate and the module of a source file; none for tests and other files.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (name, path) = path.strip_prefix("crates/").unwrap_or(path).split_once("/src/")?;
    let mut module: Module = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests") {
        return None;
    }
    module.pop_if(|last| matches!(last.as_str(), "lib" | "main"));
    Some((name, module))
}

struct Source<'a> {
    file: &'a str,
    paths: Paths,
}

/// The modules of a crate.
#[derive(Default)]
struct Crate<'a>(BTreeMap<Module, Source<'a>>);

/// The dependencies between siblings, each with the first place that shows it.
type Edges<'a> = BTreeMap<(&'a str, &'a str), (&'a str, usize)>;

impl Crate<'_> {
    /// Removes the modules that are compiled for tests only.
    fn remove_tests(&mut self) {
        let tests: Vec<Module> = self
            .0
            .iter()
            .flat_map(|(module, source)| {
                source.paths.test_modules.iter().map(|name| module.iter().chain([name]).cloned().collect())
            })
            .collect();
        self.0.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    }

    fn findings(&self) -> Vec<Finding> {
        self.edges().into_iter().filter_map(|(parent, edges)| finding(parent, &in_cycles(edges))).collect()
    }

    /// The dependencies among the children of each module.
    fn edges(&self) -> BTreeMap<&[String], Edges<'_>> {
        let mut edges: BTreeMap<&[String], Edges<'_>> = BTreeMap::new();
        for (module, source) in &self.0 {
            for (path, line) in &source.paths.named {
                let Some((target, _)) = self.0.get_key_value(&self.target(module, path)) else { continue };
                let common = module.iter().zip(target).take_while(|(one, other)| one == other).count();
                if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                    let edges = edges.entry(&module[..common]).or_default();
                    edges.entry((from, to)).or_insert((source.file, *line));
                }
            }
        }
        edges
    }

    /// The module that has what a path in `module` names.
    fn target(&self, module: &[String], path: &Path) -> Module {
        // A `use` may lead to another `use`; a path that leads in a cycle does not compile.
        const USES_MAX: u32 = 16;
        let (mut found, mut rest) = path.absolute(module);
        for _ in 0..USES_MAX {
            while let Some((first, others)) = rest.split_first() {
                let child: Module = found.iter().chain([first]).cloned().collect();
                if !self.0.contains_key(&child) {
                    break;
                }
                (found, rest) = (child, others.to_vec());
            }
            let imported = rest.first().and_then(|first| self.0.get(&found)?.paths.imports.get(first));
            let Some(imported) = imported else { break };
            let (place, mut names) = imported.absolute(&found);
            names.extend(rest.drain(1..));
            (found, rest) = (place, names);
        }
        found
    }
}

/// The dependencies that are part of a cycle, or lead from one to another.
fn in_cycles(mut edges: Edges<'_>) -> Edges<'_> {
    loop {
        let used: BTreeSet<&str> = edges.keys().map(|(_, to)| *to).collect();
        let using: BTreeSet<&str> = edges.keys().map(|(from, _)| *from).collect();
        let before = edges.len();
        edges.retain(|(from, to), _| used.contains(from) && using.contains(to));
        if edges.len() == before {
            return edges;
        }
    }
}

fn finding(parent: &[String], edges: &Edges<'_>) -> Option<Finding> {
    let (file, line) = *edges.values().next()?;
    let place = if parent.is_empty() { "the crate".to_owned() } else { parent.join("::") };
    let list: Vec<_> =
        edges.iter().map(|((from, to), (file, line))| format!("{from} -> {to} ({file}:{line})")).collect();
    let text = format!("modules of {place} depend on each other in a cycle, break it: {}", list.join(", "));
    Some(Finding::at(file, line, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File {
            path: format!("crates/a/src/{path}"),
            text: (*text).to_owned(),
        };
        let files: Vec<File> = files.iter().map(file).collect();
        check(&files).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn siblings_that_name_each_other_are_a_cycle() {
        let found = cycles(&[
            ("lib.rs", "mod b;\nmod c;\nmod d;\n"),
            ("b.rs", "use crate::c::C;\n"),
            ("c.rs", "mod deep;\nfn f() {\n    crate::d::f();\n}\n"),
            ("c/deep.rs", "type B = super::super::b::B;\n"),
            ("d.rs", "//! Names [`crate::b`].\n"),
        ]);
        let text = "modules of the crate depend on each other in a cycle, break it: \
                    b -> c (crates/a/src/b.rs:1), c -> b (crates/a/src/c/deep.rs:1)";
        assert_eq!(found, [text]);
    }

    #[test]
    fn an_ancestor_and_its_descendants_may_name_each_other() {
        let found = cycles(&[
            ("lib.rs", "mod b;\npub use b::B;\n"),
            ("b.rs", "mod c;\nuse c::C;\npub struct B(C);\n"),
            ("b/c.rs", "use super::B;\nuse crate::b::B as Same;\npub struct C;\n"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_name_brought_by_a_use_leads_to_its_module() {
        let found = cycles(&[
            ("lib.rs", "mod b;\nmod c;\npub use c::{inner::{C, D}, E as F};\n"),
            ("b.rs", "fn f(_: crate::F) {}\n"),
            ("c.rs", "mod inner;\n"),
            ("c/inner.rs", "use crate::{b, X};\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("b -> c (crates/a/src/b.rs:1), c -> b (crates/a/src/c/inner.rs:1)"),
            "{found:?}"
        );
    }

    #[test]
    fn a_package_may_have_two_roots() {
        let found = cycles(&[
            ("lib.rs", "mod b;\nmod c;\nuse c::C;\n"),
            ("main.rs", "fn f(_: impl Fn() -> i32 + use<>) {}\n"),
            ("b.rs", "use crate::C;\n"),
            ("c.rs", "use crate::b::B;\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn tests_and_other_files_do_not_count() {
        let found = cycles(&[
            ("lib.rs", "mod b;\nmod c;\n"),
            ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n"),
            ("b/tests.rs", "use crate::c::C;\n"),
            ("c.rs", "use crate::b::B;\n"),
            ("readme.md", "crate::c"),
        ]);
        assert_eq!(found, [""; 0]);
        let found = cycles(&[
            ("lib.rs", "mod b;\n#[cfg(test)]\nmod c;\n"),
            ("b.rs", "use crate::c::C;\n"),
            ("c.rs", "use crate::b::B;\n"),
        ]);
        assert_eq!(found, [""; 0]);
        assert_eq!(module_of("crates/a/tests/it/b.rs"), None);
        assert_eq!(module_of("crates/a/src/main.rs"), Some(("a", Vec::new())));
        assert_eq!(module_of("xtask/src/b/c.rs"), Some(("xtask", vec!["b".to_owned(), "c".to_owned()])));
    }
}
