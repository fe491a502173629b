//! The root keys of a server: they mint and verify tokens.

use crate::caveat::Caveat;
use crate::delivery_marks::DeliveryMarks;
use crate::identifier::Nonce;
use crate::key::{KeyError, KeyId, RootKey, RootKeyStatus};
use crate::limits::{KEYS_COUNT_MAX, SKEW_SECONDS_MAX};
use crate::refusal::{AuthReason, Refusal};
use crate::token::Token;
use crate::token_error::TokenError;
use crate::verified_token::VerifiedToken;

/// Root keys by id, of which exactly one is active.
#[derive(Debug)]
pub struct Keyring {
    entries: Vec<Entry>,
    skew_seconds: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: KeyId,
    pub(crate) status: RootKeyStatus,
    pub(crate) root: RootKey,
    /// What the key file says about the key.
    pub(crate) comment: Option<String>,
}

impl Keyring {
    /// A keyring with one key, which is active.
    pub fn new(id: KeyId, root: RootKey) -> Self {
        let first = Entry { id, status: RootKeyStatus::Active, root, comment: None };
        Self { entries: vec![first], skew_seconds: 0 }
    }

    /// Reads the entries of a key file, of which exactly one is active.
    pub(crate) fn of_entries(entries: Vec<Entry>) -> Self {
        Self { entries, skew_seconds: 0 }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Tolerates clocks that differ by at most 120 s. The default is 0.
    pub fn with_skew_seconds(mut self, skew_seconds: u64) -> Result<Self, KeyError> {
        if skew_seconds > SKEW_SECONDS_MAX {
            return Err(KeyError::Skew { given: skew_seconds });
        }
        self.skew_seconds = skew_seconds;
        Ok(self)
    }

    /// The ids of the keys with their status, in the order of the key file.
    pub fn keys(&self) -> impl Iterator<Item = (&KeyId, RootKeyStatus)> {
        self.entries.iter().map(|entry| (&entry.id, entry.status))
    }

    /// Adds a key and makes it the active one; tokens of the key before it are still accepted.
    pub fn rotate(&mut self, id: KeyId, root: RootKey) -> Result<(), KeyError> {
        check_new(&self.entries, &id, &root)?;
        self.accept_active();
        self.entries.push(Entry { id, status: RootKeyStatus::Active, root, comment: None });
        Ok(())
    }

    /// Changes the status of a key. If it becomes active, the key that was active is accepted. The active key cannot
    /// be changed otherwise, and a compromised key not at all.
    pub fn set_status(&mut self, id: &KeyId, status: RootKeyStatus) -> Result<(), KeyError> {
        let found = self.entries.iter().position(|entry| entry.id == *id);
        let index = found.ok_or_else(|| KeyError::Unknown(id.clone()))?;
        match self.entries[index].status {
            current if current == status => return Ok(()),
            RootKeyStatus::Active => return Err(KeyError::Active(id.clone())),
            RootKeyStatus::Compromised => return Err(KeyError::Compromised(id.clone())),
            RootKeyStatus::Accepted | RootKeyStatus::Retired => {}
        }
        if status == RootKeyStatus::Active {
            self.accept_active();
        }
        self.entries[index].status = status;
        Ok(())
    }

    fn accept_active(&mut self) {
        for entry in &mut self.entries {
            if entry.status == RootKeyStatus::Active {
                entry.status = RootKeyStatus::Accepted;
            }
        }
    }

    /// Makes a token with the active key; `nonce` must be random. Refuses caveats without `expires`.
    pub fn mint(&self, nonce: Nonce, caveats: &[Caveat]) -> Result<Token, TokenError> {
        let active = self.entries.iter().find(|entry| entry.status == RootKeyStatus::Active);
        let Entry { id, root, .. } =
            active.expect("every way to make or change a keyring leaves one active key");
        Token::mint(id.clone(), root, nonce, caveats)
    }

    /// Checks signature and key of a token, and that all its caveats are understood. Whether they hold is checked
    /// for each request, see [`VerifiedToken`].
    pub fn verify(&self, token: &Token) -> Result<VerifiedToken, Refusal> {
        let entry = self.signer(token)?;
        match entry.status {
            RootKeyStatus::Active | RootKeyStatus::Accepted => self.verified(token, entry),
            RootKeyStatus::Retired => Err(AuthReason::KeyRetired.into()),
            RootKeyStatus::Compromised => Err(AuthReason::KeyCompromised.into()),
        }
    }

    /// The same, but retired keys are good enough: for settlements of deliveries that were claimed before the key was
    /// retired, and for nothing else.
    pub fn verify_for_settlement(&self, token: &Token) -> Result<VerifiedToken, Refusal> {
        let entry = self.signer(token)?;
        match entry.status {
            RootKeyStatus::Compromised => Err(AuthReason::KeyCompromised.into()),
            _ => self.verified(token, entry),
        }
    }

    fn verified(&self, token: &Token, signer: &Entry) -> Result<VerifiedToken, Refusal> {
        let marks = DeliveryMarks::new(&signer.root, token.identifier().nonce);
        VerifiedToken::new(token, marks, self.skew_seconds)
    }

    fn signer(&self, token: &Token) -> Result<&Entry, Refusal> {
        let named = self.entries.iter().find(|entry| entry.id == token.identifier().key);
        let entry = named.ok_or(AuthReason::UnknownKey)?;
        if token.is_signed_by(&entry.root) { Ok(entry) } else { Err(AuthReason::BadSignature.into()) }
    }
}

/// Fails if a key cannot be added to these. The same key under two ids would outlive the end of one of them.
pub(crate) fn check_new(entries: &[Entry], id: &KeyId, root: &RootKey) -> Result<(), KeyError> {
    if entries.len() >= KEYS_COUNT_MAX {
        return Err(KeyError::TooMany);
    }
    for entry in entries {
        if entry.id == *id {
            return Err(KeyError::IdInUse(id.clone()));
        }
        if entry.root.is_same(root) {
            return Err(KeyError::SameKey(entry.id.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
