//! Calls on the ledger.

use oncebox_wire::ledger::{Answer, Begun, Entry, MarkProcessed, Release, TryBegin};
use oncebox_wire::path;

use crate::call::{Call, json};
use crate::client::Client;
use crate::error::Error;
use crate::repeat::Repeat;
use crate::target;

/// # Ledger
impl Client {
    /// Takes a lease on a key, unless it is processed or somebody has one. If the answer is lost, so is the lease until it
    /// ends: a repeat would be told `Busy`, so there is none.
    pub async fn try_begin(&self, begin: &TryBegin) -> Result<Begun, Error> {
        self.ask(Call::post(path::TRY_BEGIN, Repeat::Unsent, json(begin)?)).await
    }

    /// The key is processed.
    pub async fn mark_processed(&self, mark: &MarkProcessed) -> Result<Answer, Error> {
        self.ask(Call::post(path::MARK_PROCESSED, Repeat::Safe, json(mark)?)).await
    }

    /// Gives a lease back.
    pub async fn release(&self, release: &Release) -> Result<Answer, Error> {
        self.ask(Call::post(path::RELEASE, Repeat::Safe, json(release)?)).await
    }

    /// What is known about a key.
    pub async fn ledger_entry(&self, key: &str) -> Result<Entry, Error> {
        self.ask(Call::get(target::path(path::INBOX_KEY, key)?)).await
    }
}
