//! `cargo xtask kill`, `cargo xtask powercut` and `cargo xtask kill-server`: the campaigns of `crates/torture`, the first
//! two built for speed.

use crate::cargo::Call;
use crate::failure::Result;
use crate::workspace::Workspace;

/// Which campaign, how much of it, and from which seed (the campaign's own unless given).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torture {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) count: u64,
    pub(crate) seed: Option<String>,
}

const ARGUMENTS: [&str; 6] = ["run", "--release", "-q", "-p", "oncebox-torture", "--"];
/// A server is not hurried: it runs with its assertions.
const WITH_ASSERTIONS: [&str; 5] = ["run", "-q", "-p", "oncebox-torture", "--"];
/// The server, which the campaign expects beside itself.
const SERVER: [&str; 4] = ["build", "-q", "-p", "oncebox-cli"];

pub(crate) fn run(workspace: &Workspace, torture: &Torture) -> Result<String> {
    let count = torture.count.to_string();
    let mut arguments = ARGUMENTS.to_vec();
    if torture.name == "kill-server" {
        Call { environment: &[], arguments: &SERVER }.run(workspace)?;
        arguments = WITH_ASSERTIONS.to_vec();
    }
    arguments.extend([torture.name, torture.unit, &count]);
    if let Some(seed) = &torture.seed {
        arguments.extend(["--seed", seed]);
    }
    let call = Call { environment: &[], arguments: &arguments };
    println!("{call}");
    call.run(workspace)?;
    Ok(format!("{}: all promises kept", torture.name))
}
