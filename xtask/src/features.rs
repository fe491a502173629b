//! `cargo xtask features`: builds every crate without features, with each feature alone, and with all features.

use std::fmt;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::metadata::{self, Package};
use crate::stopwatch::Stopwatch;
use crate::workspace::Workspace;

/// One crate with a set of its features.
#[derive(Debug, PartialEq, Eq)]
struct Build {
    package: String,
    features: Features,
}

#[derive(Debug, PartialEq, Eq)]
enum Features {
    None,
    One(String),
    All,
}

/// The feature of default builds, which only enables other features.
const DEFAULT: &str = "default";

pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let builds = builds(&metadata::members(workspace)?);
    let total = Stopwatch::start();
    let mut failed = Vec::new();
    for (index, build) in builds.iter().enumerate() {
        let took = Stopwatch::start();
        let arguments = build.arguments();
        let call = Call { environment: &[], arguments: &arguments };
        let outcome = if call.run(workspace).is_ok() { "builds" } else { "FAILED" };
        println!("features: {}/{} {build}: {outcome}, {:.1} s", index + 1, builds.len(), took.seconds());
        if outcome == "FAILED" {
            failed.push(format!("{call}"));
        }
    }
    let summary = format!("features: {} builds in {:.0} s", builds.len(), total.seconds());
    if failed.is_empty() {
        return Ok(summary);
    }
    Err(Failure::new(format!("{summary}, {} failed:\n{}", failed.len(), failed.join("\n"))))
}

/// For each package: no feature, each feature alone, and all features if there are several.
fn builds(packages: &[Package]) -> Vec<Build> {
    packages.iter().flat_map(of_package).collect()
}

fn of_package(package: &Package) -> Vec<Build> {
    let names: Vec<&String> = package.features.keys().filter(|name| *name != DEFAULT).collect();
    let mut choices = vec![Features::None];
    choices.extend(names.iter().map(|name| Features::One((*name).clone())));
    if names.len() > 1 {
        choices.push(Features::All);
    }
    choices.into_iter().map(|features| Build { package: package.name.clone(), features }).collect()
}

impl Build {
    fn arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["check", "--quiet", "--package", &self.package];
        match &self.features {
            Features::None => arguments.push("--no-default-features"),
            Features::One(name) => arguments.extend(["--no-default-features", "--features", name]),
            Features::All => arguments.push("--all-features"),
        }
        arguments
    }
}

impl fmt::Display for Build {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.features {
            Features::None => write!(formatter, "{} without features", self.package),
            Features::One(name) => write!(formatter, "{} with `{name}`", self.package),
            Features::All => write!(formatter, "{} with all features", self.package),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, features: &[&str]) -> Vec<String> {
        let features = features.iter().map(|feature| ((*feature).to_owned(), Vec::new())).collect();
        let package = Package { name: name.to_owned(), features, ..Package::default() };
        builds(&[package]).iter().map(|build| build.arguments().join(" ")).collect()
    }

    #[test]
    fn a_crate_without_features_is_built_once() {
        assert_eq!(lines("a", &[]), ["check --quiet --package a --no-default-features"]);
        assert_eq!(lines("a", &[DEFAULT]).len(), 1);
    }

    #[test]
    fn each_feature_is_built_alone_and_several_also_together() {
        let start = "check --quiet --package a";
        assert_eq!(
            lines("a", &[DEFAULT, "x", "y"]),
            [
                format!("{start} --no-default-features"),
                format!("{start} --no-default-features --features x"),
                format!("{start} --no-default-features --features y"),
                format!("{start} --all-features"),
            ]
        );
        assert_eq!(lines("a", &["x"]).len(), 2, "one feature alone is all features");
    }

    #[test]
    fn the_builds_of_this_workspace_include_single_stores() {
        let members = metadata::members(&Workspace::locate().unwrap()).unwrap();
        let list: Vec<String> = builds(&members).iter().map(ToString::to_string).collect();
        for expected in ["oncebox without features", "oncebox with `postgres`", "oncebox with all features"] {
            assert!(list.iter().any(|line| line == expected), "{expected} is missing from {list:?}");
        }
    }
}
