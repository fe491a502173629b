//! Tokens: minted with a key, attenuated by their holders, passed on as text.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::caveat::{Caveat, CaveatError, CaveatKind};
use crate::identifier::{Identifier, Nonce};
use crate::key::{KeyId, RootKey};
use crate::limits::TOKEN_BYTES_MAX;
use crate::packet::Packet;
use crate::token_error::{TokenError, check_length};

/// A capability: who has its text may do what its caveats allow. Nothing about it is verified yet.
///
/// There is no `Display`, so that no log shows the text by accident; `Debug` shows the identifier and the number of
/// caveats.
#[derive(Clone)]
pub struct Token {
    identifier: Identifier,
    packet: Packet,
}

impl Token {
    /// Parses base64url without padding.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        check_length("the token", text.len() / 4 * 3, TOKEN_BYTES_MAX)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Encoding)?;
        Self::from_bytes(&bytes)
    }

    /// Parses the binary form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        let packet = Packet::parse(bytes)?;
        let identifier = Identifier::parse(packet.identifier()).ok_or(TokenError::Identifier)?;
        Ok(Self { identifier, packet })
    }

    /// Caveats `tenant` come first, because they count only before the first `expires`; see
    /// [`crate::VerifiedToken::check_message`].
    pub(crate) fn mint(
        key: KeyId,
        root: &RootKey,
        nonce: Nonce,
        caveats: &[Caveat],
    ) -> Result<Self, TokenError> {
        if !caveats.iter().any(|caveat| caveat.kind() == CaveatKind::Expires) {
            return Err(TokenError::NoExpiry);
        }
        let identifier = Identifier { key, nonce };
        let mut packet = Packet::sign(root, None, identifier.to_string());
        let (tenants, others): (Vec<_>, Vec<_>) =
            caveats.iter().partition(|caveat| caveat.kind() == CaveatKind::Tenant);
        for caveat in tenants.into_iter().chain(others) {
            packet.add(caveat.to_string())?;
        }
        Ok(Self { identifier, packet })
    }

    /// The same token with another caveat, which needs no key. Fails for the 33rd caveat and for one over 256 bytes.
    pub fn attenuate(&self, caveat: &Caveat) -> Result<Self, TokenError> {
        let mut attenuated = self.clone();
        attenuated.packet.add(caveat.to_string())?;
        Ok(attenuated)
    }

    /// What names the token.
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// The caveats in order: the text, which has no control characters, and what it means.
    pub fn caveats(&self) -> impl Iterator<Item = (&str, Result<Caveat, CaveatError>)> {
        self.packet.caveats().iter().map(|text| (text.as_str(), Caveat::parse(text)))
    }

    pub(crate) fn is_signed_by(&self, root: &RootKey) -> bool {
        self.packet.is_signed_by(root)
    }

    /// The binary form.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.packet.to_bytes()
    }

    /// The text form: base64url without padding. It is a secret.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("key", &self.identifier.key)
            .field("nonce", &self.identifier.nonce)
            .field("caveats", &self.packet.caveats().len())
            .finish()
    }
}

#[cfg(test)]
mod tests;
