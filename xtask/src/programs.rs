//! External programs that the tests use. Missing ones are installed from Debian packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

/// The programs, and the packages that contain them.
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

/// Directory of servers, which is not in the path of ordinary users.
const SYSTEM: &str = "/usr/sbin";
/// PostgreSQL has a directory per version here, with `bin` in it.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Installs the packages in its arguments. The policy keeps Debian from starting the installed servers: the tests start
/// their own.
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

/// Installs the missing programs.
pub(crate) fn ensure_installed() -> Result<()> {
    let directories = directories();
    let missing = PROGRAMS.iter().filter(|(program, _)| !is_in(&directories, program));
    let mut packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    packages.dedup();
    if !can_create_environments() {
        packages.push("python3-venv");
    }
    if packages.is_empty() || install(&packages) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the tests need programs that are missing, and installing them failed. As root, run \
         `apt-get install --no-install-recommends {}`, or install them in another way and add them to PATH; \
         no server needs to run, the tests start their own",
        packages.join(" ")
    )))
}

fn directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = Path::new(VERSIONS).read_dir().into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    std::env::split_paths(&path).chain([SYSTEM.into()]).chain(versions).collect()
}

fn is_in(directories: &[PathBuf], program: &str) -> bool {
    directories.iter().any(|directory| directory.join(program).is_file())
}

/// Whether Python can create virtual environments, for which Debian has a separate package.
fn can_create_environments() -> bool {
    let output = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Installs packages as root, directly or with a `sudo` that needs no password.
fn install(packages: &[&str]) -> bool {
    println!("test: installing {} …", packages.join(" "));
    let run = |program: &str, prefix: &[&str]| {
        let mut command = Command::new(program);
        command.args(prefix).args(["-c", INSTALL, "install"]).args(packages);
        command.status().is_ok_and(|status| status.success())
    };
    run("sh", &[]) || run("sudo", &["-n", "sh"])
}

#[cfg(test)]
mod tests {
    use super::{directories, is_in};

    #[test]
    fn a_program_is_found_or_is_missing() {
        let directories = directories();
        assert!(is_in(&directories, "cargo"));
        assert!(!is_in(&directories, "no-such-program"));
        assert!(!is_in(&[], "cargo"));
    }
}
