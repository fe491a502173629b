//! The contents of `deny.toml`. Unknown keys are an error, so that the file contains nothing that is not checked.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    #[serde(default, rename = "graph")]
    _graph: Graph,
    pub(super) licenses: Licenses,
    pub(super) bans: Bans,
    #[serde(rename = "sources")]
    _sources: Sources,
}

/// Used by cargo-deny only: the lock file always contains the dependencies of every feature.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    #[serde(rename = "all-features")]
    _all_features: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// Additional licences that are allowed for one crate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    spec: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bans {
    #[serde(rename = "multiple-versions")]
    _multiple_versions: Denied,
    #[serde(default)]
    pub(super) deny: Vec<Entry>,
    #[serde(default)]
    pub(super) skip: Vec<Entry>,
}

/// A crate, or some of its versions, and the reason for the entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    #[serde(rename = "crate")]
    pub(super) spec: String,
    pub(super) reason: String,
}

/// The lists of allowed sources are not supported: only the default registry is allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    #[serde(rename = "unknown-registry")]
    _unknown_registry: Denied,
    #[serde(rename = "unknown-git")]
    _unknown_git: Denied,
}

/// The only supported level.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Denied {
    Deny,
}

impl Licenses {
    pub(super) fn allows(&self, name: &str, version: &str, licence: &str) -> bool {
        let exceptions = self.exceptions.iter().filter(|exception| covers(&exception.spec, name, version));
        exceptions.flat_map(|exception| &exception.allow).chain(&self.allow).any(|allowed| allowed == licence)
    }
}

impl Entry {
    pub(super) fn covers(&self, name: &str, version: &str) -> bool {
        covers(&self.spec, name, version)
    }
}

/// Whether `name`, `name@1.2.3` (this version) or `name:1` (compatible versions) covers this crate.
fn covers(spec: &str, name: &str, version: &str) -> bool {
    if let Some((wanted, exact)) = spec.split_once('@') {
        return wanted == name && exact == version;
    }
    match spec.split_once(':') {
        Some((wanted, start)) => {
            let rest = version.strip_prefix(start);
            wanted == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        None => spec == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_a_crate_a_version_or_compatible_versions() {
        for (spec, version, expected) in [
            ("syn", "3.0.9", true),
            ("sync", "3.0.9", false),
            ("syn@3.0.9", "3.0.9", true),
            ("syn@3.0.9", "3.0.10", false),
            ("syn:3", "3.0.9", true),
            ("syn:3.0", "3.0.9", true),
            ("syn:3", "30.0.9", false),
            ("sync:3", "3.0.9", false),
        ] {
            assert_eq!(covers(spec, "syn", version), expected, "{spec} {version}");
        }
    }

    #[test]
    fn unsupported_keys_are_rejected() {
        let text = "[licenses]\nallow = []\n[bans]\nmultiple-versions = \"deny\"\n[sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\n";
        toml::from_str::<Policy>(text).unwrap();
        for extra in ["[advisories]\n", "allow-git = [\"https://example.org\"]\n"] {
            toml::from_str::<Policy>(&format!("{text}{extra}")).unwrap_err();
        }
        toml::from_str::<Policy>(&text.replace("unknown-git = \"deny\"", "unknown-git = \"warn\""))
            .unwrap_err();
    }
}
