//! The project's own commands, run as `cargo xtask <command>`: arguments in, exit code out.

mod api_fuzz;
mod arguments;
mod campaign;
mod cargo;
mod ci;
mod failure;
mod guards;
mod programs;
mod spec;
mod test;
mod text;
mod tidy;
mod torture;
mod workspace;

use std::env;
use std::process::ExitCode;

use arguments::Command;
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
fn run(command: Command) -> Result<String> {
    let workspace = Workspace::locate()?;
    match command {
        Command::ApiFuzz(fuzz) => api_fuzz::run(&workspace, &fuzz),
        Command::Campaign(campaign) => campaign::run(&workspace, &campaign),
        Command::Ci => ci::run(&workspace),
        Command::Guards(part) => guards::run(&workspace, &part),
        Command::Spec => spec::write(&workspace),
        Command::SpecCheck => spec::check(&workspace),
        Command::Test => test::run(&workspace),
        Command::Tidy => tidy::run(&workspace),
        Command::Torture(torture) => torture::run(&workspace, &torture),
    }
}
