//! `cargo xtask kill`, `powercut`, `kill-server`, `kill-workers`, `kill-handlers` and `failover`: the campaigns of
//! `crates/torture`, in release builds except for `kill-server`.

use crate::cargo::Call;
use crate::failure::Result;
use crate::programs;
use crate::workspace::Workspace;

/// A campaign and its options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torture {
    pub(crate) name: &'static str,
    pub(crate) options: Vec<String>,
}

const ARGUMENTS: [&str; 6] = ["run", "--release", "-q", "-p", "oncebox-torture", "--"];
/// A debug build, to run the server with its debug assertions.
const WITH_ASSERTIONS: [&str; 5] = ["run", "-q", "-p", "oncebox-torture", "--"];
/// The server, which the campaign expects in its own directory.
const SERVER: [&str; 4] = ["build", "-q", "-p", "oncebox-cli"];
/// The campaigns that start a PostgreSQL server.
const ON_POSTGRES: [&str; 3] = ["kill-workers", "kill-handlers", "failover"];

pub(crate) fn run(workspace: &Workspace, torture: &Torture) -> Result<String> {
    let mut arguments = ARGUMENTS.to_vec();
    if torture.name == "kill-server" {
        Call { environment: &[], arguments: &SERVER }.run(workspace)?;
        arguments = WITH_ASSERTIONS.to_vec();
    }
    if ON_POSTGRES.contains(&torture.name) {
        programs::ensure_installed()?;
    }
    arguments.push(torture.name);
    arguments.extend(torture.options.iter().map(String::as_str));
    let call = Call { environment: &[], arguments: &arguments };
    println!("{call}");
    call.run(workspace)?;
    Ok(format!("{}: passed", torture.name))
}
