//! The chain of HMACs that signs a token: each link is the key of the next.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::key::RootKey;

/// Every implementation of macaroons derives its first key with this text.
const KEY_GENERATOR: &[u8] = b"macaroons-key-generator";
pub(crate) const SIGNATURE_BYTES: usize = 32;

/// A link of the chain. The last one is the signature of the token, and the key for the next caveat of its holder.
/// Overwritten when it is dropped; compared in constant time only.
#[derive(Clone)]
pub(crate) struct Signature(Zeroizing<[u8; SIGNATURE_BYTES]>);

impl Signature {
    /// The first link.
    pub(crate) fn of_identifier(root: &RootKey, identifier: &[u8]) -> Self {
        hmac(KEY_GENERATOR, root.as_bytes()).of_caveat(identifier)
    }

    /// The link after this one.
    pub(crate) fn of_caveat(&self, caveat: &[u8]) -> Self {
        hmac(&*self.0, caveat)
    }

    pub(crate) fn from_bytes(bytes: [u8; SIGNATURE_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &*self.0
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

pub(crate) fn hmac(key: &[u8], message: &[u8]) -> Signature {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    let mut output = mac.finalize().into_bytes();
    let signature = Signature::from_bytes(output.into());
    output.as_mut_slice().zeroize();
    signature
}
