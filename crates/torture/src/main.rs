//! The process under test of the kill and power-cut campaigns, and the campaigns themselves. Run by `cargo xtask kill`,
//! `kill-server`, `kill-workers`, `kill-handlers`, `failover` and `powercut`.

mod arguments;
mod caller;
mod clock;
mod dump;
mod held;
mod listing;
mod load;
mod postgres;

mod server;
mod trace;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use arguments::Mode;
use oncebox_audit::{kill, powercut};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(mode) = arguments::parse(&arguments) else {
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
            let (program, directory) = (env::current_exe()?, scratch_directory("kill"));
            let summary = kill::run(&kill::KillCampaign { program, directory, cycles, seed })?;
            println!("{summary}");
            Ok(())
        }
        Mode::KillServer { rounds, seed, memory } => {
            // Cargo builds both programs into the same directory.
            let (program, directory) =
                (env::current_exe()?.with_file_name("oncebox"), scratch_directory("kill-server"));
            let store =
                if memory { "memory:".to_owned() } else { format!("embedded:{}", directory.display()) };
            let summary = server::run(&server::KillServerCampaign { program, store, rounds, seed })
                .map_err(|failure| format!("{failure}\nthe store is kept in {}", directory.display()))?;
            let _ = std::fs::remove_dir_all(&directory);
            println!("{summary}");
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
            let (program, directory) = (env::current_exe()?, scratch_directory("powercut"));
            let summary = powercut::run(&powercut::PowercutCampaign { program, directory, cuts, seed })?;
            println!("{summary}");
            Ok(())
        }
    }
}

/// A temporary directory for this run.
fn scratch_directory(campaign: &str) -> PathBuf {
    env::temp_dir().join(format!("oncebox-{campaign}-{}", std::process::id()))
}
