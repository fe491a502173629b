//! `cargo xtask kill` and `cargo xtask powercut`: the campaigns of `crates/torture`, built for speed.

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

pub(crate) fn run(workspace: &Workspace, torture: &Torture) -> Result<String> {
    let count = torture.count.to_string();
    let mut arguments = ARGUMENTS.to_vec();
    arguments.extend([torture.name, torture.unit, &count]);
    if let Some(seed) = &torture.seed {
        arguments.extend(["--seed", seed]);
    }
    let call = Call { environment: &[], arguments: &arguments };
    println!("{call}");
    call.run(workspace)?;
    Ok(format!("{}: all promises kept", torture.name))
}
