//! Campaigns against the PostgreSQL store: several processes share it while they are killed, lose connections and lose
//! the server. The auditor checks their logs.

mod failover;
mod handle;
mod held;
mod inspect;
mod kill_handlers;
mod kill_workers;
mod log;
mod message;
mod processes;
mod protocol;
mod send;
mod store_handle;
mod work;

use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use failover::run as failover;
pub(crate) use handle::{Handler, HandlerMode, run as handle};
pub(crate) use kill_handlers::{KillHandlers, run as kill_handlers};
pub(crate) use kill_workers::{KillWorkers, PlantedBug, run as kill_workers};
pub(crate) use send::{Sender, run as send};
pub(crate) use work::{Worker, run as work};

use crate::Failure;

/// The directory of a campaign: removed at its end, kept after a failure.
struct Scratch(PathBuf);

impl Scratch {
    fn make(campaign: &str) -> Result<Self, Failure> {
        let directory = crate::scratch_directory(campaign);
        std::fs::create_dir(&directory)?;
        Ok(Self(directory))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Removes the directory if the campaign passed.
    fn close(&self, outcome: Result<String, Failure>) -> Result<String, Failure> {
        match outcome {
            Ok(summary) => {
                std::fs::remove_dir_all(&self.0)?;
                Ok(summary)
            }
            Err(failure) => Err(format!("{failure}\nthe logs are kept in {}", self.0.display()).into()),
        }
    }
}

/// Runs a process of a campaign. It exits when its input ends, so that no process outlives the campaign.
fn run_process(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
