//! The project's own commands, run as `cargo xtask <command>`: arguments in, exit code out.

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

use arguments::{Command, Ours};
use failure::Result;
use workspace::Workspace;

/// The exit code of a command line that names no command.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let given: Vec<String> = env::args().skip(1).collect();
    let command = match arguments::parse(&given) {
        Ok(command) => command,
        Err(mistake) => {
            eprintln!("xtask: {mistake}\n\n{}", arguments::USAGE);
            return ExitCode::from(MISUSED);
        }
    };
    let command = match command {
        Command::RunTestBinary(supervised) => return test::supervisor::run(&supervised),
        Command::Spin(seconds) => test::spin(seconds),
        Command::Ours(command) => command,
    };
    match run(command) {
        Ok(closing) => {
            println!("{closing}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Carries out a command and returns the line that closes its output.
fn run(command: Ours) -> Result<String> {
    let workspace = Workspace::locate()?;
    match command {
        Ours::Campaign(campaign) => campaign::run(&workspace, &campaign),
        Ours::Ci => ci::run(&workspace),
        Ours::Features => features::run(&workspace),
        Ours::Guards(part) => guards::run(&workspace, &part),
        Ours::Loom => loom::run(&workspace),
        Ours::Spec => spec::write(&workspace),
        Ours::SpecCheck => spec::check(&workspace),
        Ours::Test(options) => test::run(&workspace, &options),
        Ours::Tidy => tidy::run(&workspace),
        Ours::TidyBless => tidy::bless(&workspace),
        Ours::Torture(torture) => torture::run(&workspace, &torture),
    }
}
