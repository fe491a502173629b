//! What the server and its clients say to each other: paths, headers, and the shapes of requests and answers.
//!
//! Requests to the mailbox and the operator's door refuse fields that they do not know; the ledger's door ignores them, and
//! so does everybody who reads answers. Moments are texts as in RFC 3339; durations are milliseconds, and say so.

pub mod header;
pub mod ledger;
pub mod mailbox;
pub mod operator;
pub mod path;

mod base64;
mod code;
mod health;
#[cfg(feature = "openapi")]
pub mod schema;
mod strict;
mod whole;

pub use base64::Base64;
pub use code::{Bound, Code, ErrorBody, Problem};
pub use health::{Finding, Live, Ready};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_false(flag: &bool) -> bool {
    !flag
}
