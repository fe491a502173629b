//! Development commands of the workspace, run as `cargo xtask <command>`.

mod arguments;
mod campaign;
mod cargo;
mod ci;
mod failure;
mod features;
mod guards;
mod loom;
mod metadata;
mod programs;
mod spec;
mod stopwatch;
mod test;
mod text;
mod tidy;
mod torture;
mod workspace;

use std::env;
use std::process::ExitCode;

use arguments::{Command, WorkspaceCommand};
use failure::Result;
use workspace::Workspace;

/// The exit code for an invalid command line.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let command = match arguments::parse(&arguments) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("xtask: {error}\n\n{}", arguments::USAGE);
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let command = match command {
        Command::RunTestBinary(supervised) => return test::supervisor::run(&supervised),
        Command::Spin(seconds) => test::spin(seconds),
        Command::Workspace(command) => command,
    };
    match run(command) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command and returns the last line of its output.
fn run(command: WorkspaceCommand) -> Result<String> {
    let workspace = Workspace::locate()?;
    match command {
        WorkspaceCommand::Campaign(campaign) => campaign::run(&workspace, &campaign),
        WorkspaceCommand::Ci => ci::run(&workspace),
        WorkspaceCommand::Features => features::run(&workspace),
        WorkspaceCommand::Guards(selection) => guards::run(&workspace, &selection),
        WorkspaceCommand::Loom => loom::run(&workspace),
        WorkspaceCommand::Spec => spec::write(&workspace),
        WorkspaceCommand::SpecCheck => spec::check(&workspace),
        WorkspaceCommand::Test(options) => test::run(&workspace, &options),
        WorkspaceCommand::Tidy => tidy::run(&workspace),
        WorkspaceCommand::Torture(torture) => torture::run(&workspace, &torture),
    }
}
