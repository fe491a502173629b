//! Why a server fails.

use std::path::PathBuf;

/// Why the server could not start, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The store could not be opened or closed.
    #[error("store: {0}")]
    Store(#[from] oncebox::Error),
    /// The key file cannot be used.
    #[error("the key file {}: {problem}", path.display())]
    KeyFile {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The certificate or its key cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// The revocations could not be read.
    #[error("cannot read the revocations of tokens: {0}")]
    Revocations(String),
    /// The server could not listen on an address.
    #[error(
        "cannot listen on {listen} ({error}): stop the other program, or set `{setting}` to another address"
    )]
    Listen {
        /// The setting that contains the address.
        setting: &'static str,
        /// The address.
        listen: String,
        /// The error of the operating system.
        #[source]
        error: std::io::Error,
    },
}
