//! `oncebox completions`: what a shell completes.

use clap::Command;
use clap_complete::Shell;

use crate::output;
use crate::trouble::Trouble;

/// Writes the completions of a shell, as in `oncebox completions bash > /etc/bash_completion.d/oncebox`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<(), Trouble> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "oncebox", &mut script);
    output::write_bytes(&script)
}
