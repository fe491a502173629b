//! Small lock files and manifests against a policy, and the workspace's own policy.

use super::*;

fn policy() -> Policy {
    toml::from_str(
        r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        exceptions = [{ crate = "zoo", allow = ["Zlib"] }]
        [bans]
        multiple-versions = "deny"
        deny = [{ crate = "openssl", reason = "TLS is rustls" }]
        skip = [{ crate = "syn:2", reason = "old macros" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        "#,
    )
    .unwrap()
}

fn locked(packages: &[(&str, &str)]) -> Vec<Locked> {
    let registry = format!("registry+https://{PUBLIC_INDEX}");
    let package = |(name, version): &(&str, &str)| Locked {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        source: Some(registry.clone()),
    };
    packages.iter().map(package).collect()
}

#[test]
fn a_banned_crate_is_named_with_the_reason() {
    assert_eq!(banned(&policy(), &locked(&[("openssl-probe", "0.1.0")])), [""; 0]);
    assert_eq!(
        banned(&policy(), &locked(&[("openssl", "1.0.2")])),
        ["`openssl 1.0.2` is banned: TLS is rustls"]
    );
}

#[test]
fn only_the_default_registry_and_the_workspace_are_sources() {
    let mut packages = locked(&[("a", "1.0.0"), ("b", "1.0.0"), ("c", "1.0.0"), ("d", "1.0.0")]);
    packages[1].source = None;
    assert_eq!(sources(&packages), [""; 0]);
    packages[2].source = Some("git+https://example.org/c#0123".to_owned());
    packages[3].source = Some("registry+https://example.org/index".to_owned());
    let problems = sources(&packages);
    assert_eq!(problems.len(), 2);
    assert!(problems[0].starts_with("`c` comes from git+https://example.org/c"), "{}", problems[0]);
}

#[test]
fn a_second_version_needs_an_entry_with_a_reason() {
    let both = [("syn", "2.0.119"), ("syn", "3.0.9")];
    assert_eq!(duplicates(&policy(), &locked(&both)), [""; 0]);
    let problems = duplicates(&policy(), &locked(&[both[0], both[1], ("rand", "0.9.1"), ("rand", "0.10.0")]));
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("`rand` is built at several versions (0.10.0, 0.9.1)"),
        "{}",
        problems[0]
    );
    let three = duplicates(&policy(), &locked(&[both[0], both[1], ("syn", "4.0.0")]));
    assert_eq!(three.len(), 1, "two versions are left besides the skipped one");
}

#[test]
fn a_superfluous_entry_is_reported() {
    let problems = duplicates(&policy(), &locked(&[("syn", "3.0.9")]));
    assert_eq!(problems, ["`syn:2` is skipped, but is no longer a duplicate: remove the entry"]);
}

#[test]
fn licences_are_allowed_for_all_or_for_one_crate() {
    let package = |name: &str, license: Option<&str>| Package {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        license: license.map(str::to_owned),
        ..Package::default()
    };
    let problem = |name, license| licence(&policy(), &package(name, license)).unwrap_or_default();
    assert_eq!(problem("a", Some("MIT OR GPL-3.0-only")), "");
    assert_eq!(problem("zoo", Some("Zlib")), "");
    assert!(problem("a", Some("Zlib")).contains("is licensed under Zlib"));
    assert!(problem("a", Some("MIT OR")).contains("cannot parse the licence"));
    assert!(problem("a", None).contains("has no licence"));
}

#[test]
fn the_policy_of_the_workspace_parses_and_gives_reasons() {
    let policy: Policy = read(&Workspace::locate().unwrap(), POLICY).unwrap();
    for entry in policy.bans.deny.iter().chain(&policy.bans.skip) {
        assert!(entry.reason.len() > 10, "{}: {}", entry.spec, entry.reason);
    }
}
