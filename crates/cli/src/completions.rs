//! `oncebox completions`: completion scripts for shells.

use clap::Command;
use clap_complete::Shell;

use crate::error::CliError;
use crate::output;

/// Print a shell completion script, as in `oncebox completions bash > /etc/bash_completion.d/oncebox`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Shell to generate the script for.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "oncebox", &mut script);
    output::write_bytes(&script)
}
