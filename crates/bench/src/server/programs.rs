//! Where the peers' programs lie. A rival that is not there is installed from Debian's packages.

use std::path::PathBuf;
use std::process::Command;

use super::job::Peer;

/// Starts a program that dies with us, however we end. It becomes that program, under the same process id.
pub(super) const LEASH: &str = "setpriv";

/// The program that serves as a peer, or a sentence that says what is missing.
pub(super) fn of(peer: Peer) -> Result<PathBuf, String> {
    let ours = std::env::current_exe().map_err(|error| format!("where does this program lie? {error}"))?;
    find(LEASH).ok_or_else(|| missing(LEASH, "util-linux"))?;
    match peer {
        Peer::Bare => Ok(ours),
        Peer::Oncebox => {
            let path = ours.with_file_name("oncebox");
            let sentence = "is not there: cargo build --release -p oncebox-cli";
            if path.is_file() { Ok(path) } else { Err(format!("{} {sentence}", path.display())) }
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
    println!("{program} is missing; installing Debian's package {package}");
    let install = ["install", "-y", "--no-install-recommends", package];
    if !apt_get(&install) {
        // The lists of packages may be old, or not there at all.
        apt_get(&["update"]);
        apt_get(&install);
    }
    find(program).ok_or_else(|| missing(program, package))
}

fn missing(program: &str, package: &str) -> String {
    format!("{program} is not there: apt-get install --no-install-recommends {package}")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers lie where the path of one who is not root does not lead.
    let system = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(system);
    places.find_map(|place| Some(place.join(program)).filter(|path| path.is_file()))
}

/// As root, by itself or by a `sudo` that does not ask.
fn apt_get(arguments: &[&str]) -> bool {
    let run = |start: &[&str]| {
        let mut command = Command::new(start[0]);
        command.args(&start[1..]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.output().is_ok_and(|output| output.status.success())
    };
    run(&["apt-get"]) || run(&["sudo", "-n", "apt-get"])
}
