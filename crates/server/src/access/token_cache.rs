//! Verified tokens by their text. What is cached does not depend on the time: that the signature is good, and what the
//! caveats say.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::known_token::KnownToken;

/// Maximum number of cached tokens.
const TOKENS_MAX: usize = 4_096;
/// Longer tokens are not cached: holders can add caveats without end.
const TEXT_BYTES_MAX: usize = 2_048;

/// The hash of a text is keyed at random, so how long a look-up takes reveals nothing about the texts.
#[derive(Default)]
pub(super) struct TokenCache(RwLock<HashMap<Box<str>, Arc<KnownToken>>>);

impl TokenCache {
    pub(super) fn get(&self, text: &str) -> Option<Arc<KnownToken>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(text).cloned()
    }

    pub(super) fn insert(&self, text: &str, known: Arc<KnownToken>) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(text.into(), known);
    }

    pub(super) fn purge(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
