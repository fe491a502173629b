//! Packages from `cargo metadata`, read without network access.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

/// A package of the workspace or a dependency.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The licence expression in its manifest.
    #[serde(default)]
    pub(crate) license: Option<String>,
    /// Each feature with the features that it enables.
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

const MEMBERS: [&str; 5] = ["metadata", "--format-version", "1", "--offline", "--no-deps"];
/// Only this platform, so that packages of others need not be downloaded.
const ALL: [&str; 7] =
    ["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", "host-tuple"];

/// The packages of the workspace.
pub(crate) fn members(workspace: &Workspace) -> Result<Vec<Package>> {
    packages(workspace, &MEMBERS)
}

/// The packages of the workspace and all their dependencies on this platform, with default features.
pub(crate) fn all(workspace: &Workspace) -> Result<Vec<Package>> {
    packages(workspace, &ALL)
}

fn packages(workspace: &Workspace, arguments: &[&str]) -> Result<Vec<Package>> {
    let call = Call { environment: &[], arguments };
    let output = call.output(workspace)?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let text = format!("{error}`{call}` failed: run `cargo fetch --locked` once with network access");
        return Err(Failure::new(text));
    }
    parse(&output.stdout).map_err(|error| Failure::new(format!("`{call}` printed unexpected JSON ({error})")))
}

fn parse(json: &[u8]) -> serde_json::Result<Vec<Package>> {
    serde_json::from_slice::<Metadata>(json).map(|metadata| metadata.packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_and_other_fields_ignored() {
        let json = r#"{"packages": [
            {"name": "a", "version": "1.2.0", "license": null, "features": {"x": ["dep:y"]}, "edition": "2024"},
            {"name": "b", "version": "0.1.0", "license": "MIT"}], "version": 1}"#;
        let packages = parse(json.as_bytes()).unwrap();
        assert_eq!((packages[0].name.as_str(), &packages[0].license), ("a", &None));
        assert_eq!(packages[0].features.keys().collect::<Vec<_>>(), ["x"]);
        assert_eq!(packages[1].license.as_deref(), Some("MIT"));
        parse(b"{}").unwrap_err();
    }

    #[test]
    fn xtask_is_a_member() {
        let members = members(&Workspace::locate().unwrap()).unwrap();
        assert!(members.iter().any(|package| package.name == "xtask"));
    }
}
