//! Locates the programs of the peers. A missing rival is installed from Debian packages.

use std::path::PathBuf;
use std::process::Command;

use super::job::Peer;

/// Executes a program in its own process, so that the kernel kills it when this process ends for any reason.
pub(super) const SETPRIV: &str = "setpriv";

/// The path of the program for a peer, or an error that says what is missing.
pub(super) fn locate(peer: Peer) -> Result<PathBuf, String> {
    let ours = std::env::current_exe()
        .map_err(|error| format!("cannot determine the path of this program: {error}"))?;
    find(SETPRIV).ok_or_else(|| missing(SETPRIV, "util-linux"))?;
    match peer {
        Peer::Bare => Ok(ours),
        Peer::Oncebox | Peer::Tokens => {
            let path = ours.with_file_name("oncebox");
            let hint = "is missing: cargo build --release -p oncebox-cli";
            if path.is_file() { Ok(path) } else { Err(format!("{} {hint}", path.display())) }
        }
        Peer::Beanstalkd => package("beanstalkd", "beanstalkd"),
        Peer::Redis => package("redis-server", "redis-server"),
        Peer::Nats => package("nats-server", "nats-server"),
    }
}

fn package(program: &str, package: &str) -> Result<PathBuf, String> {
    if let Some(path) = find(program) {
        return Ok(path);
    }
    println!("{program} is missing; installing the Debian package {package}");
    let install = ["install", "-y", "--no-install-recommends", package];
    if !apt_get(&install) {
        // The package lists may be outdated or missing.
        apt_get(&["update"]);
        apt_get(&install);
    }
    find(program).ok_or_else(|| missing(program, package))
}

fn missing(program: &str, package: &str) -> String {
    format!("{program} is missing: apt-get install --no-install-recommends {package}")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers are in directories that the PATH of a non-root user may lack.
    let system = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    let mut directories = std::env::split_paths(&path).chain(system);
    directories.find_map(|directory| Some(directory.join(program)).filter(|path| path.is_file()))
}

/// Runs apt-get directly or with a passwordless `sudo`.
fn apt_get(arguments: &[&str]) -> bool {
    let run = |start: &[&str]| {
        let mut command = Command::new(start[0]);
        command.args(&start[1..]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.output().is_ok_and(|output| output.status.success())
    };
    run(&["apt-get"]) || run(&["sudo", "-n", "apt-get"])
}
