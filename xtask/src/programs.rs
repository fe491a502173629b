//! Programs that the tests call: looked for, and installed from Debian's packages where they are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

/// What the tests call, and the package that brings it.
const PROGRAMS: [(&str, &str); 10] = [
    ("curl", "curl"),
    ("ps", "procps"),
    ("kill", "procps"),
    ("setpriv", "util-linux"),
    ("openssl", "openssl"),
    ("postgres", "postgresql"),
    ("pgbouncer", "pgbouncer"),
    ("python3", "python3"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// Servers lie where a path that is not root's does not lead.
const SYSTEM: &str = "/usr/sbin";
/// PostgreSQL has a directory for each of its versions, with `bin` in it.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Installs the packages that are its arguments. Debian starts the servers that it installs, unless a policy forbids it:
/// the tests start their own.
const INSTALL: &str = r#"
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    trap 'exit 1' HUP INT TERM
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 1
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install --yes --no-install-recommends "$@"; }
# The list of packages may be missing or old.
install "$@" || { apt-get update && install "$@"; }
"#;

/// Makes sure that all are there.
pub(crate) fn provide() -> Result<()> {
    let places = places();
    let missing = PROGRAMS.iter().filter(|(program, _)| !is_in(&places, program));
    let mut packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    packages.dedup();
    if !can_make_environments() {
        packages.push("python3-venv");
    }
    if packages.is_empty() || install(&packages) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the tests need programs that are not here, and installing them failed. Have somebody who may do so run \
         `apt-get install --no-install-recommends {}`, or install them in another way and put them on the path; \
         no server needs to run, the tests start their own",
        packages.join(" ")
    )))
}

fn places() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = Path::new(VERSIONS).read_dir().into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    std::env::split_paths(&path).chain([SYSTEM.into()]).chain(versions).collect()
}

fn is_in(places: &[PathBuf], program: &str) -> bool {
    places.iter().any(|place| place.join(program).is_file())
}

/// Whether Python can make virtual environments: Debian has a package of its own for that.
fn can_make_environments() -> bool {
    let asked = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// As root, by itself or by a `sudo` that does not ask.
fn install(packages: &[&str]) -> bool {
    println!("test: installing {} …", packages.join(" "));
    let run = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        command.args(before).args(["-c", INSTALL, "install"]).args(packages);
        command.status().is_ok_and(|status| status.success())
    };
    run("sh", &[]) || run("sudo", &["-n", "sh"])
}

#[cfg(test)]
mod tests {
    use super::{is_in, places};

    #[test]
    fn a_program_is_found_or_is_missing() {
        let places = places();
        assert!(is_in(&places, "cargo"));
        assert!(!is_in(&places, "no-such-program"));
        assert!(!is_in(&[], "cargo"));
    }
}
