//! Marks that tell with which token a delivery was received.

use std::fmt;

use crate::chain::{self, Signature};
use crate::identifier::Nonce;
use crate::key::RootKey;

/// Keeps marks apart from signatures, which begin with another text.
const KEY_GENERATOR: &[u8] = b"oncebox-delivery-marks";

/// The marks of one nonce. Its holders cannot compute them, only compare what they were given.
#[derive(Clone)]
pub(crate) struct DeliveryMarks(Signature);

impl DeliveryMarks {
    pub(crate) fn new(root: &RootKey, nonce: Nonce) -> Self {
        Self(chain::hmac(KEY_GENERATOR, root.as_bytes()).of_caveat(nonce.as_bytes()))
    }

    /// The mark that belongs to a number and the end of a token.
    pub(crate) fn of(&self, number: u64, expires: u64) -> u64 {
        let [number, expires] = [number, expires].map(u64::to_be_bytes);
        let mark = self.0.of_caveat(&[number, expires].concat());
        let (first, _) = mark.as_bytes().split_first_chunk().expect("a link has 32 bytes");
        u64::from_be_bytes(*first)
    }
}

impl fmt::Debug for DeliveryMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeliveryMarks")
    }
}
