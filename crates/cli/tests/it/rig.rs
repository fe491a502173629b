//! Runs the binary, independent of the environment of the test run.

use std::process::{Command, Output};

/// An address without a listener.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:1";

pub(crate) fn oncebox(arguments: &[&str]) -> Command {
    oncebox_under(&[], arguments)
}

/// The same, started by another program with its own arguments.
pub(crate) fn oncebox_under(wrapper: &[&str], arguments: &[&str]) -> Command {
    let mut command_line = wrapper.iter().chain(&[env!("CARGO_BIN_EXE_oncebox")]).chain(arguments);
    let mut command = Command::new(command_line.next().expect("the binary"));
    command.env_remove("NO_COLOR").env("ONCEBOX_SERVER", NOWHERE).args(command_line);
    command
}

pub(crate) fn run(arguments: &[&str]) -> CommandOutput {
    CommandOutput::from(oncebox(arguments).output().expect("the binary runs"))
}

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
