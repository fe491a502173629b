//! The allowed dependencies between the crates of the workspace.

use super::Finding;
use super::manifest::{self, Dependency, Kind, Renames};
use crate::workspace::File;

/// The folder of a crate, and the folders of the workspace that it may depend on. `store-*` means every store, `*`
/// every crate; the first rule that covers a folder counts. No store may depend on another, but stores on a database
/// share the engine `store-rows`.
const RULES: [(&str, &[&str]); 19] = [
    ("core", &[]),
    ("system", &["core"]),
    ("store-rows", &["core"]),
    ("store-postgres", &["core", "system", "store-rows"]),
    ("store-*", &["core", "system"]),
    ("oncebox", &["core", "macros", "system", "store-*", "testkit"]),
    ("wire", &["core"]),
    ("capability", &[]),
    ("testkit", &["core", "system"]),
    ("macros", &[]),
    ("server", &["oncebox", "wire", "core", "system", "capability"]),
    ("client", &["wire"]),
    ("cli", &["client", "server", "oncebox", "capability"]),
    ("sim", &["oncebox", "core", "testkit", "system", "store-memory"]),
    ("bench", &["*"]),
    ("audit", &[]),
    ("torture", &["audit", "core", "oncebox", "store-embedded", "testkit"]),
    ("examples", &["oncebox"]),
    ("xtask", &[]),
];

/// The crate that every crate except the core may use in its tests.
const FOR_TESTS: &str = "testkit";

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut renames = Renames::new();
    if let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") {
        match manifest::renames(&root.text) {
            Ok(found) => renames = found,
            Err(error) => return vec![Finding::error(root, 1, format!("{error}: fix the manifest"))],
        }
    }
    let members = files.iter().filter_map(|file| Some((file, folder_of_manifest(&file.path)?)));
    members.flat_map(|(file, folder)| check_member(file, folder, &renames)).collect()
}

fn check_member(file: &File, folder: &str, renames: &Renames) -> Vec<Finding> {
    let Some((_, allowed)) = RULES.iter().find(|(pattern, _)| covers(pattern, folder)) else {
        let text = format!("`{folder}` has no dependency rule: add its rule to xtask/src/tidy/directions.rs");
        return vec![Finding::error(file, 1, text)];
    };
    let manifest = match manifest::read(&file.text, renames) {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::error(file, 1, format!("{error}: fix the manifest"))],
    };
    let mut findings = Vec::new();
    let expected = package_name(folder);
    if manifest.package != expected {
        let text = format!(
            "the package is named `{}`: rename it to `{expected}`, after its folder",
            manifest.package
        );
        findings.push(Finding::error(file, 1, text));
    }
    let problems = manifest.dependencies.iter().filter_map(|dependency| {
        let target = folder_of_package(&dependency.package)?;
        let text = problem(folder, target, dependency, allowed)?;
        Some(Finding::error(file, dependency.line, text))
    });
    findings.extend(problems);
    findings
}

/// The problem if `folder` must not depend on `target`.
fn problem(folder: &str, target: &str, dependency: &Dependency, allowed: &[&str]) -> Option<String> {
    // The tests of a crate may enable its own features.
    let for_tests =
        dependency.kind == Kind::Dev && (target == folder || target == FOR_TESTS && folder != "core");
    if for_tests || allowed.iter().any(|pattern| covers(pattern, target)) {
        return None;
    }
    let may = match allowed {
        [] => "no crate of the workspace".to_owned(),
        _ => allowed.join(", "),
    };
    Some(format!(
        "`{folder}` must not depend on `{target}` (allowed: {may}): move the code to an allowed crate"
    ))
}

fn covers(pattern: &str, folder: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == folder, |start| folder.starts_with(start))
}

/// The folder of a workspace member; none for other manifests.
fn folder_of_manifest(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    if folder == "examples" || folder == "xtask" {
        return Some(folder);
    }
    folder.strip_prefix("crates/").filter(|name| !name.contains('/'))
}

fn folder_of_package(package: &str) -> Option<&str> {
    match package {
        "oncebox" | "xtask" => Some(package),
        _ => package.strip_prefix("oncebox-"),
    }
}

fn package_name(folder: &str) -> String {
    match folder {
        "oncebox" | "xtask" => folder.to_owned(),
        _ => format!("oncebox-{folder}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(folder: &str, section: &str, dependency: &str) -> Vec<String> {
        let name = package_name(folder);
        let text = format!("[package]\nname = \"{name}\"\n[{section}]\n{dependency} = {{ path = \"x\" }}\n");
        let path = match folder {
            "examples" | "xtask" => format!("{folder}/Cargo.toml"),
            _ => format!("crates/{folder}/Cargo.toml"),
        };
        check(&[File { path, text }]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allowed_dependencies_pass() {
        for (folder, section, dependency) in [
            ("system", "dependencies", "oncebox-core"),
            ("store-memory", "dependencies", "oncebox-system"),
            ("store-memory", "dev-dependencies", "oncebox-testkit"),
            ("store-postgres", "dependencies", "oncebox-store-rows"),
            ("oncebox", "dependencies", "oncebox-store-postgres"),
            ("oncebox", "dev-dependencies", "oncebox"),
            ("cli", "dependencies", "oncebox"),
            ("server", "dependencies", "oncebox-capability"),
            ("bench", "dependencies", "oncebox-store-memory"),
            ("torture", "dependencies", "oncebox-audit"),
            ("examples", "dependencies", "oncebox"),
            ("core", "dependencies", "bytes"),
        ] {
            assert_eq!(texts(folder, section, dependency), [""; 0], "{folder} {dependency}");
        }
    }

    #[test]
    fn other_dependencies_are_reported_with_their_line() {
        for (folder, section, dependency) in [
            ("core", "dependencies", "oncebox-system"),
            ("core", "dev-dependencies", "oncebox-testkit"),
            ("store-memory", "dependencies", "oncebox-testkit"),
            ("store-memory", "dev-dependencies", "oncebox-store-embedded"),
            ("store-memory", "dependencies", "oncebox-store-rows"),
            ("store-rows", "dependencies", "oncebox-system"),
            ("client", "build-dependencies", "oncebox-core"),
            ("examples", "dependencies", "oncebox-core"),
            ("capability", "dependencies", "oncebox-core"),
            ("xtask", "dependencies", "oncebox-core"),
            ("audit", "dependencies", "oncebox-core"),
        ] {
            let found = texts(folder, section, dependency);
            assert_eq!(found.len(), 1, "{folder} {dependency}");
            assert!(found[0].contains("Cargo.toml:4: "), "{}", found[0]);
        }
    }

    #[test]
    fn every_crate_that_a_rule_names_exists() {
        let files = crate::workspace::Workspace::locate().unwrap().files().unwrap();
        let folders: Vec<&str> = files.iter().filter_map(|file| folder_of_manifest(&file.path)).collect();
        for pattern in RULES.iter().flat_map(|(folder, allowed)| [folder].into_iter().chain(*allowed)) {
            assert!(folders.iter().any(|folder| covers(pattern, folder)), "no crate matches `{pattern}`");
        }
    }

    /// A crate is published after its dependencies, those of its tests included, as they need versions as well.
    #[test]
    fn crates_are_released_in_the_order_of_their_dependencies() {
        let workspace = crate::workspace::Workspace::locate().unwrap();
        let text = workspace.read("RELEASING.md").unwrap();
        let list =
            text.lines().filter(|line| line.starts_with(char::is_numeric) && line.contains(". `oncebox"));
        let order: Vec<Vec<&str>> = list.map(|line| line.split('`').skip(1).step_by(2).collect()).collect();
        let position = |package: &str| order.iter().position(|line| line.contains(&package));
        for package in order.iter().flatten() {
            let folder = folder_of_package(package).unwrap();
            let manifest = workspace.read(&format!("crates/{folder}/Cargo.toml")).unwrap();
            for dependency in manifest::read(&manifest, &Renames::new()).unwrap().dependencies {
                let is_member = folder_of_package(&dependency.package).is_some();
                if is_member && dependency.package != **package {
                    assert!(
                        position(&dependency.package)
                            .is_some_and(|earlier| Some(earlier) < position(package)),
                        "{package} is released before {}",
                        dependency.package
                    );
                }
            }
        }
        assert_eq!(order.iter().flatten().count(), 14, "{order:?}");
    }

    #[test]
    fn an_unknown_crate_needs_a_rule() {
        assert!(
            texts("attic", "dependencies", "bytes")[0]
                .contains("add its rule to xtask/src/tidy/directions.rs")
        );
    }

    #[test]
    fn a_package_is_named_after_its_folder() {
        let text = "[package]\nname = \"other\"\n".to_owned();
        let found = check(&[File { path: "crates/core/Cargo.toml".to_owned(), text }]);
        assert!(found[0].text.contains("`oncebox-core`"));
    }
}
