//! Programs that the tests call: looked for, and installed from Debian's packages where they are missing.

use std::process::Command;

use crate::failure::{Failure, Result};

/// What the tests call, and the package that brings it.
const PROGRAMS: [(&str, &str); 3] = [("curl", "curl"), ("ps", "procps"), ("kill", "procps")];

/// Makes sure that all are there.
pub(crate) fn provide() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = PROGRAMS.iter().filter(|(program, _)| !is_in(&path, program));
    let mut packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() || install(&packages) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the tests need programs that are not here, and installing them failed: apt-get install --no-install-recommends {}",
        packages.join(" ")
    )))
}

fn is_in(path: &std::ffi::OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|directory| directory.join(program).is_file())
}

fn install(packages: &[&str]) -> bool {
    println!("test: installing {} …", packages.join(" "));
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // The list of packages may be missing or old.
    apt_get(&install) || (apt_get(&["update"]) && apt_get(&install))
}

/// As root, by itself or by a `sudo` that does not ask.
fn apt_get(arguments: &[&str]) -> bool {
    let run = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        command.args(before).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.status().is_ok_and(|status| status.success())
    };
    run("apt-get", &[]) || run("sudo", &["-n", "apt-get"])
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn a_program_is_found_on_the_path_or_is_missing() {
        let path = std::env::var_os("PATH").unwrap();
        assert!(is_in(&path, "cargo"));
        assert!(!is_in(&path, "no-such-program"));
        assert!(!is_in("".as_ref(), "cargo"));
    }
}
