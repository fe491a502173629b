//! The root keys of a server, and the tokens that were verified with them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox_capability::{
    AuthReason, KeyError, KeyFileError, KeyId, Keyring, Refusal, RootKeyStatus, Token, limits,
};
use zeroize::Zeroizing;

use super::known_token::KnownToken;
use super::token_cache::TokenCache;
use crate::private_file::{self, NotPrivate};

/// The root keys, as the key file had them when it was read.
pub(crate) struct Keys {
    keyring: Keyring,
    cache: TokenCache,
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileProblem {
    #[error("cannot read it ({0}): create it with `oncebox cap keygen`, or correct `auth.key_file`")]
    Unreadable(#[from] io::Error),
    #[error(transparent)]
    NotPrivate(#[from] NotPrivate),
    #[error(
        "it has more than {} bytes, which is no key file: correct `auth.key_file`",
        limits::KEY_FILE_BYTES_MAX
    )]
    TooLarge,
    #[error("it is not text: correct `auth.key_file`")]
    NotText,
    #[error(transparent)]
    Content(#[from] KeyFileError),
    #[error(transparent)]
    Skew(#[from] KeyError),
}

impl Keys {
    /// Reads a key file. `clock_tolerance` is in whole seconds.
    pub(crate) fn read(path: &Path, clock_tolerance: Duration) -> Result<Self, KeyFileProblem> {
        let file = File::open(path)?;
        private_file::check(&file, path)??;
        let mut bytes = Zeroizing::new(Vec::with_capacity(limits::KEY_FILE_BYTES_MAX + 1));
        file.take(limits::KEY_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > limits::KEY_FILE_BYTES_MAX {
            return Err(KeyFileProblem::TooLarge);
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| KeyFileProblem::NotText)?;
        let keyring = Keyring::parse(text)?.with_skew_seconds(clock_tolerance.as_secs())?;
        Ok(Self { keyring, cache: TokenCache::default() })
    }

    /// The ids of the keys, with their status.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.keyring.keys().map(|(id, status)| (id.as_str(), status.as_str()))
    }

    /// Whether tokens of this key are accepted.
    pub(crate) fn accepts(&self, key: &KeyId) -> bool {
        let status = self.keyring.keys().find_map(|(id, status)| (id == key).then_some(status));
        matches!(status, Some(RootKeyStatus::Active | RootKeyStatus::Accepted))
    }

    /// Verifies the signature of a token, unless it was verified before. Whether the token allows anything now is checked
    /// for each request.
    pub(super) fn known(&self, text: &str) -> Result<Arc<KnownToken>, Refusal> {
        if let Some(known) = self.cache.get(text) {
            return Ok(known);
        }
        let token = Token::parse(text)?;
        let (verified, is_retired) = match self.keyring.verify(&token) {
            Err(Refusal::Auth(AuthReason::KeyRetired)) => (self.keyring.verify_for_settlement(&token)?, true),
            verified => (verified?, false),
        };
        let known = Arc::new(KnownToken { token, verified, is_retired });
        self.cache.insert(text, known.clone());
        Ok(known)
    }

    /// Forgets the verified tokens.
    pub(super) fn purge(&self) {
        self.cache.purge();
    }
}

#[cfg(test)]
mod tests;
