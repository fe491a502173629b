//! The process under test of the kill and power-cut campaigns, and the campaigns themselves. `cargo xtask kill` and
//! `cargo xtask powercut` run it.

mod arguments;
mod caller;
mod dump;
mod held;
mod listing;
mod load;
mod say;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::Mode;
use oncebox_audit::{kill, powercut};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some(mode) = arguments::parse(&words) else {
        eprintln!("{}", arguments::USAGE);
        return ExitCode::from(2);
    };
    match run(mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("oncebox-torture: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(mode: Mode) -> Result<(), Failure> {
    match mode {
        Mode::Load { directory, seed, durability } => load::run(&directory, seed, durability),
        Mode::Dump { directory } => dump::run(&directory),
        Mode::Kill { cycles, seed } => {
            let (program, directory) = (env::current_exe()?, scratch("kill"));
            let closing = kill::run(&kill::Campaign { program, directory, cycles, seed })?;
            println!("{closing}");
            Ok(())
        }
        Mode::Powercut { cuts, seed } => {
            let (program, directory) = (env::current_exe()?, scratch("powercut"));
            let closing = powercut::run(&powercut::Campaign { program, directory, cuts, seed })?;
            println!("{closing}");
            Ok(())
        }
    }
}

/// A directory of this run's own.
fn scratch(campaign: &str) -> PathBuf {
    env::temp_dir().join(format!("oncebox-{campaign}-{}", std::process::id()))
}
