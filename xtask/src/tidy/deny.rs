//! Checks the dependencies against `deny.toml`, which has the format of cargo-deny, without network access.
//!
//! Banned crates, sources and duplicate versions are read from `Cargo.lock`, which covers every platform and feature.
//! Licences are read from the manifests of the packages that a build on this platform needs.

mod policy;
mod spdx;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Finding;
use super::machine::PUBLIC_INDEX;
use crate::failure::{Failure, Result};
use crate::metadata::{self, Package};
use crate::workspace::Workspace;
use policy::Policy;

const POLICY: &str = "deny.toml";
const LOCK: &str = "Cargo.lock";

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

/// A package in the lock file. Packages of the workspace have no source.
#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let policy: Policy = read(workspace, POLICY)?;
    let lock: Lock = read(workspace, LOCK)?;
    let mut problems = banned(&policy, &lock.package);
    problems.extend(sources(&lock.package));
    problems.extend(duplicates(&policy, &lock.package));
    problems.extend(licences(&policy, &metadata::all(workspace)?));
    Ok(problems.into_iter().map(|text| Finding::at(POLICY, 1, text)).collect())
}

fn read<T: serde::de::DeserializeOwned>(workspace: &Workspace, path: &str) -> Result<T> {
    toml::from_str(&workspace.read(path)?)
        .map_err(|error| Failure::new(format!("{path}: {error}xtask/src/tidy/deny supports no other keys")))
}

fn banned(policy: &Policy, packages: &[Locked]) -> Vec<String> {
    let hits = packages.iter().filter_map(|package| {
        let ban = policy.bans.deny.iter().find(|ban| ban.covers(&package.name, &package.version))?;
        Some(format!("`{} {}` is banned: {}", package.name, package.version, ban.reason))
    });
    hits.collect()
}

/// All packages come from the default registry.
fn sources(packages: &[Locked]) -> Vec<String> {
    let allowed = format!("registry+https://{PUBLIC_INDEX}");
    let foreign =
        packages.iter().filter(|package| package.source.as_ref().is_some_and(|source| *source != allowed));
    foreign
        .map(|package| {
            let source = package.source.as_deref().unwrap_or_default();
            format!("`{}` comes from {source}: use a release from the default registry", package.name)
        })
        .collect()
}

/// Each crate has one version, skipped ones excluded, and every skip is needed.
fn duplicates(policy: &Policy, packages: &[Locked]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let skipped = |name: &str, version: &str| policy.bans.skip.iter().any(|skip| skip.covers(name, version));
    let mut problems = Vec::new();
    for (name, found) in &versions {
        if found.iter().filter(|version| !skipped(name, version)).count() > 1 {
            let found: Vec<&str> = found.iter().copied().collect();
            problems.push(format!(
                "`{name}` is built at several versions ({}): use one, or add the others to `bans.skip` with a reason",
                found.join(", ")
            ));
        }
    }
    for skip in &policy.bans.skip {
        let needed = versions
            .iter()
            .any(|(name, found)| found.len() > 1 && found.iter().any(|version| skip.covers(name, version)));
        if !needed {
            problems
                .push(format!("`{}` is skipped, but is no longer a duplicate: remove the entry", skip.spec));
        }
    }
    problems
}

fn licences(policy: &Policy, packages: &[Package]) -> Vec<String> {
    packages.iter().filter_map(|package| licence(policy, package)).collect()
}

fn licence(policy: &Policy, package: &Package) -> Option<String> {
    let Package { name, version, license, .. } = package;
    let Some(expression) = license else {
        return Some(format!("`{name} {version}` has no licence: replace it"));
    };
    let allowed = |id: &str| policy.licenses.allows(name, version, id);
    match spdx::satisfied(expression, &allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "`{name} {version}` is licensed under {expression}, which `licenses` does not allow"
        )),
        Err(error) => Some(format!("`{name} {version}`: cannot parse the licence `{expression}` ({error})")),
    }
}

#[cfg(test)]
mod tests;
