//! Reads a `Cargo.toml`: the name of the package, and its dependencies with their lines.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// The parts of a manifest that tidy uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) package: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The name of the package, resolved from a rename.
    pub(super) package: String,
    pub(super) kind: Kind,
    pub(super) line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Build,
    Dev,
}

const TABLES: [(&str, Kind); 3] =
    [("dependencies", Kind::Normal), ("build-dependencies", Kind::Build), ("dev-dependencies", Kind::Dev)];

/// Packages that the workspace renames: `name = { package = "…" }`.
pub(super) type Renames = BTreeMap<String, String>;

/// Reads the renames in the manifest of the workspace.
pub(super) fn renames(text: &str) -> Result<Renames, String> {
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let table = child(document.get_ref(), "workspace").and_then(|workspace| child(workspace, "dependencies"));
    let entries = table.into_iter().flat_map(DeTable::iter);
    Ok(entries
        .filter_map(|(name, value)| {
            let package = string(value.get_ref().as_table()?, "package")?;
            Some((name.get_ref().to_string(), package.to_owned()))
        })
        .collect())
}

/// Reads the manifest of a member, including the tables under `[target.…]`.
pub(super) fn read(text: &str, renames: &Renames) -> Result<Manifest, String> {
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let root = document.get_ref();
    let package = child(root, "package").and_then(|package| string(package, "name")).unwrap_or_default();
    let targets = child(root, "target").into_iter().flat_map(DeTable::values);
    let targets = targets.filter_map(|target| target.get_ref().as_table());
    let mut dependencies = Vec::new();
    for owner in std::iter::once(root).chain(targets) {
        for (table, kind) in TABLES {
            for (name, value) in child(owner, table).into_iter().flat_map(DeTable::iter) {
                let package = resolve(name.get_ref(), value.get_ref(), renames);
                let line = text[..name.span().start].matches('\n').count() + 1;
                dependencies.push(Dependency { package, kind, line });
            }
        }
    }
    dependencies.sort_by_key(|dependency| dependency.line);
    Ok(Manifest { package: package.to_owned(), dependencies })
}

fn resolve(name: &str, value: &DeValue<'_>, renames: &Renames) -> String {
    let own = value.as_table().and_then(|table| string(table, "package"));
    let shared = || renames.get(name).map(String::as_str);
    own.or_else(shared).unwrap_or(name).to_owned()
}

fn child<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
    table.get(name).and_then(|value| value.get_ref().as_table())
}

fn string<'t>(table: &'t DeTable<'_>, name: &str) -> Option<&'t str> {
    table.get(name).and_then(|value| value.get_ref().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_are_read_and_names_resolved() {
        let renames =
            renames("[workspace.dependencies]\nalias = { package = \"oncebox-core\", path = \"x\" }\n")
                .unwrap();
        let text = "[package]\nname = \"oncebox-system\"\n\n[dependencies]\nalias.workspace = true\nbytes = \"1\"\n\
            [dev-dependencies]\nkit = { package = \"oncebox-testkit\" }\n\
            [target.'cfg(unix)'.build-dependencies]\ncc = \"1\"\n";
        let dependency = |package: &str, kind, line| Dependency { package: package.to_owned(), kind, line };
        let expected = Manifest {
            package: "oncebox-system".to_owned(),
            dependencies: vec![
                dependency("oncebox-core", Kind::Normal, 5),
                dependency("bytes", Kind::Normal, 6),
                dependency("oncebox-testkit", Kind::Dev, 8),
                dependency("cc", Kind::Build, 10),
            ],
        };
        assert_eq!(read(text, &renames), Ok(expected));
    }

    #[test]
    fn a_broken_manifest_is_an_error() {
        read("[package", &Renames::new()).unwrap_err();
    }
}
