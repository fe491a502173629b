//! The process under test of the kill and power-cut campaigns, and the campaigns themselves. `cargo xtask kill`,
//! `kill-server`, `kill-workers`, `kill-handlers`, `failover` and `powercut` run it.

mod arguments;
mod caller;
mod clock;
mod dump;
mod held;
mod listing;
mod load;
mod postgres;
mod say;
mod server;

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
        Mode::KillServer { rounds, seed, memory } => {
            // Both are built into one folder.
            let (program, directory) =
                (env::current_exe()?.with_file_name("oncebox"), scratch("kill-server"));
            let store =
                if memory { "memory:".to_owned() } else { format!("embedded:{}", directory.display()) };
            let closing = server::run(&server::Campaign { program, store, rounds, seed })
                .map_err(|failure| format!("{failure}\nthe store is left in {}", directory.display()))?;
            let _ = std::fs::remove_dir_all(&directory);
            println!("{closing}");
            Ok(())
        }
        Mode::KillWorkers(campaign) => {
            println!("{}", postgres::kill_workers(&campaign)?);
            Ok(())
        }
        Mode::Failover { seed } => {
            println!("{}", postgres::failover(seed)?);
            Ok(())
        }
        Mode::KillHandlers(campaign) => {
            println!("{}", postgres::kill_handlers(&campaign)?);
            Ok(())
        }
        Mode::PgHandle(handler) => postgres::handle(&handler),
        Mode::PgSend(sender) => postgres::send(&sender),
        Mode::PgWork(worker) => postgres::work(&worker),
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
