//! A cargo command line that can be displayed and run.

use std::env;
use std::fmt;
use std::process::{Command, Output};

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

/// A cargo command line with its environment variables.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) environment: &'a [(&'a str, &'a str)],
    pub(crate) arguments: &'a [&'a str],
}

impl Call<'_> {
    /// The process to start: the cargo that runs xtask, in the root of the workspace.
    pub(crate) fn command(&self, workspace: &Workspace) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(workspace.root());
        command.envs(self.environment.iter().copied()).args(self.arguments);
        command
    }

    /// Runs the command with inherited output.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let status = self.command(workspace).status().map_err(|error| self.cannot_start(&error))?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("`{self}` failed: see above"))) }
    }

    /// Runs the command, and returns its output.
    pub(crate) fn output(&self, workspace: &Workspace) -> Result<Output> {
        self.command(workspace).output().map_err(|error| self.cannot_start(&error))
    }

    /// Runs the command for at most `seconds`, and returns its output.
    pub(crate) fn limited(&self, workspace: &Workspace, seconds: &str) -> Result<Output> {
        let cargo = self.command(workspace);
        let mut command = Command::new("timeout");
        command.arg(seconds).arg(cargo.get_program()).args(cargo.get_args()).current_dir(workspace.root());
        command.envs(self.environment.iter().copied());
        command.output().map_err(|error| self.cannot_start(&error))
    }

    pub(crate) fn cannot_start(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("cannot start `{self}` ({error}): is cargo installed?"))
    }
}

impl fmt::Display for Call<'_> {
    /// Formats the command as it is typed in a shell.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.environment {
            let quote = if value.contains(' ') { "\"" } else { "" };
            write!(formatter, "{name}={quote}{value}{quote} ")?;
        }
        write!(formatter, "cargo {}", self.arguments.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_displayed_as_typed_in_a_shell() {
        let call =
            Call { environment: &[("RUSTDOCFLAGS", "-D warnings"), ("N", "1")], arguments: &["doc", "-q"] };
        assert_eq!(call.to_string(), "RUSTDOCFLAGS=\"-D warnings\" N=1 cargo doc -q");
    }
}
