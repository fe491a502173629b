//! Ledger calls.

use oncebox_wire::ledger::{
    KeyResponse, LedgerResponse, MarkProcessedRequest, ReleaseRequest, TryBeginRequest, TryBeginResponse,
};
use oncebox_wire::path;

use crate::call::{Call, json};
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::RetryPolicy;
use crate::target;

/// # Ledger
impl Client {
    /// Acquires a lease on a key, unless the key is processed or leased. Not retried once it was sent: if the response
    /// is lost, the key stays `Busy` until the lease ends.
    pub async fn try_begin(&self, begin: &TryBeginRequest) -> Result<TryBeginResponse, ClientError> {
        self.call(Call::post(path::TRY_BEGIN, RetryPolicy::IfUnsent, json(begin)?)).await
    }

    /// Marks a key as processed.
    pub async fn mark_processed(&self, mark: &MarkProcessedRequest) -> Result<LedgerResponse, ClientError> {
        self.call(Call::post(path::MARK_PROCESSED, RetryPolicy::Always, json(mark)?)).await
    }

    /// Releases a lease.
    pub async fn release(&self, release: &ReleaseRequest) -> Result<LedgerResponse, ClientError> {
        self.call(Call::post(path::RELEASE, RetryPolicy::Always, json(release)?)).await
    }

    /// The state of a key.
    pub async fn ledger_entry(&self, key: &str) -> Result<KeyResponse, ClientError> {
        self.call(Call::get(target::path(path::INBOX_KEY, key)?)).await
    }
}
