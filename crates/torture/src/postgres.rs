//! The store on PostgreSQL: processes that share it, are killed, are cut off, lose their server, and are judged by what they
//! wrote down.

mod crew;
mod door;
mod failover;
mod handle;
mod kill_handlers;
mod kill_workers;
mod log;
mod look;
mod mail;
mod send;
mod words;
mod work;

use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use failover::run as failover;
pub(crate) use handle::{Handler, Way, run as handle};
pub(crate) use kill_handlers::{KillHandlers, run as kill_handlers};
pub(crate) use kill_workers::{KillWorkers, Plant, run as kill_workers};
pub(crate) use send::{Sender, run as send};
pub(crate) use work::{Worker, run as work};

use crate::Failure;

/// A directory for a campaign: removed at its end, kept after a fault.
struct Scratch(PathBuf);

impl Scratch {
    fn make(campaign: &str) -> Result<Self, Failure> {
        let directory = crate::scratch(campaign);
        std::fs::create_dir(&directory)?;
        Ok(Self(directory))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it after a campaign without a fault.
    fn close(&self, outcome: Result<String, Failure>) -> Result<String, Failure> {
        match outcome {
            Ok(closing) => {
                std::fs::remove_dir_all(&self.0)?;
                Ok(closing)
            }
            Err(failure) => {
                Err(format!("{failure}\nwhat was written is left in {}", self.0.display()).into())
            }
        }
    }
}

/// Runs a process of a campaign. It ends with its input, so that none outlives the campaign.
fn run_process(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
