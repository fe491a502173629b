//! Runs the binary, away from whatever the tester has set.

use std::process::{Command, Output};

/// Nobody listens there.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:1";

pub(crate) fn oncebox(arguments: &[&str]) -> Command {
    oncebox_under(&[], arguments)
}

/// The same, run by another program with its own arguments.
pub(crate) fn oncebox_under(wrapper: &[&str], arguments: &[&str]) -> Command {
    let mut words = wrapper.iter().chain(&[env!("CARGO_BIN_EXE_oncebox")]).chain(arguments);
    let mut command = Command::new(words.next().expect("the binary"));
    command.env_remove("NO_COLOR").env("ONCEBOX_SERVER", NOWHERE).args(words);
    command
}

pub(crate) fn run(arguments: &[&str]) -> Ran {
    Ran::from(oncebox(arguments).output().expect("the binary runs"))
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
