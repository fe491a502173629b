//! The server API as shared by server and clients: paths, headers, requests and responses.
//!
//! The mailbox and operator endpoints reject requests with unknown fields; the ledger endpoints ignore unknown fields,
//! and so must clients in responses. Timestamps are RFC 3339 strings. Durations are integers with their unit in the
//! field name.

pub mod header;
pub mod ledger;
pub mod mailbox;
pub mod operator;
pub mod path;

mod base64;
mod code;
#[cfg(feature = "openapi")]
mod field_schema;
mod health;
mod integer;
#[cfg(feature = "openapi")]
pub mod schema;
mod strict;

pub use base64::Base64;
pub use code::{BoundUsage, ErrorBody, ErrorCode, Problem};
pub use health::{LiveResponse, ReadyFinding, ReadyResponse};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
