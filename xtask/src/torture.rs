//! `cargo xtask kill`, `powercut`, `kill-server`, `kill-workers`, `kill-handlers` and `failover`: the campaigns of
//! `crates/torture`, all but the one against the server built for speed.

use crate::cargo::Call;
use crate::failure::Result;
use crate::programs;
use crate::workspace::Workspace;

/// Which campaign, and its options: how much of it, and from which seed (the campaign's own unless given).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torture {
    pub(crate) name: &'static str,
    pub(crate) options: Vec<String>,
}

const ARGUMENTS: [&str; 6] = ["run", "--release", "-q", "-p", "oncebox-torture", "--"];
/// A server is not hurried: it runs with its assertions.
const WITH_ASSERTIONS: [&str; 5] = ["run", "-q", "-p", "oncebox-torture", "--"];
/// The server, which the campaign expects beside itself.
const SERVER: [&str; 4] = ["build", "-q", "-p", "oncebox-cli"];
/// They start a PostgreSQL of their own.
const ON_POSTGRES: [&str; 3] = ["kill-workers", "kill-handlers", "failover"];

pub(crate) fn run(workspace: &Workspace, torture: &Torture) -> Result<String> {
    let mut arguments = ARGUMENTS.to_vec();
    if torture.name == "kill-server" {
        Call { environment: &[], arguments: &SERVER }.run(workspace)?;
        arguments = WITH_ASSERTIONS.to_vec();
    }
    if ON_POSTGRES.contains(&torture.name) {
        programs::provide()?;
    }
    arguments.push(torture.name);
    arguments.extend(torture.options.iter().map(String::as_str));
    let call = Call { environment: &[], arguments: &arguments };
    println!("{call}");
    call.run(workspace)?;
    Ok(format!("{}: all promises kept", torture.name))
}
