//! Access control: which requests a token allows.
//!
//! Without a key file there is none, and the server can be reached from its own machine only.

mod access_control;
mod grant;
mod keys;
mod known_token;
mod rate_limits;
mod refusal_counter;
mod request;
mod revocations;
mod revoked;
mod token_cache;

pub(crate) use access_control::AccessControl;
pub(crate) use grant::{Access, Grant};
pub(crate) use keys::Keys;
pub(crate) use rate_limits::RateExceeded;
pub(crate) use request::{AccessRefusal, RequestHead, Requirement};
pub(crate) use revocations::{Revocations, RevocationsError, TooOld};
pub(crate) use revoked::{Revocation, RevocationDetails, RevocationTarget};
