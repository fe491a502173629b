//! Capabilities: tokens that say what their holder may do. They are macaroons in the v2 binary format.
//!
//! A [`Keyring`] mints tokens with its active root key and verifies tokens of all its accepted keys. A token carries
//! [`Caveat`]s, which all have to hold. Its holder can add caveats without a key, and cannot remove one. The crate does
//! no I/O, reads no clock and draws no random numbers.
//!
//! ```
//! use oncebox_capability::{ApiNamespace, ApiOperation, Caveat, HeadFacts, MessageFacts};
//! use oncebox_capability::{KeyId, Keyring, Nonce, RootKey, Token};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let keyring = Keyring::new(KeyId::new("k1")?, RootKey::new(&[7; 32])?); // 32 random bytes
//! let caveats = [Caveat::parse("op = send")?, Caveat::Expires(1_800_000_000)];
//! let minted = keyring.mint(Nonce::new([1; 16]), &caveats)?; // 16 random bytes
//!
//! // The holder passes on less than it has.
//! let narrower = minted.attenuate(&Caveat::parse("topic_prefix = orders.")?)?;
//!
//! // The server checks each request, with all that it knows about it.
//! let token = keyring.verify(&Token::parse(&narrower.to_text())?)?;
//! let now = 1_790_000_000;
//! let head = HeadFacts {
//!     operation: ApiOperation::Send,
//!     namespace: Some(ApiNamespace::Mailbox),
//!     client: None,
//!     payload_bytes_min: 0,
//! };
//! token.check_head(&head, now)?;
//! let message = |topic| MessageFacts { topic: Some(topic), payload_bytes: 200, ..MessageFacts::default() };
//! token.check_message(&message("orders.created"))?;
//! assert!(token.check_message(&message("invoices.created")).is_err());
//! # Ok(())
//! # }
//! ```

#[macro_use]
mod names;

mod address_range;
mod caveat;
mod chain;
mod delivery_marks;
mod identifier;
mod key;
mod key_file;
mod keyring;
pub mod limits;
mod operation;
mod packet;
mod refusal;
mod token;
mod token_error;
mod verified_token;

pub use address_range::AddressRange;
pub use caveat::{Caveat, CaveatError, CaveatKind, DeliveryId};
pub use identifier::{Identifier, Nonce};
pub use key::{KeyError, KeyId, RootKey, RootKeyStatus};
pub use key_file::KeyFileError;
pub use keyring::Keyring;
pub use operation::{ApiNamespace, ApiOperation};
pub use refusal::{AuthReason, Refusal, ScopeReason};
pub use token::Token;
pub use token_error::TokenError;
pub use verified_token::{HeadFacts, MessageFacts, VerifiedToken};
