//! The mailbox API: send, receive, settle.

mod binary;
mod convert;
pub(super) mod receive;
pub(super) mod send;
pub(super) mod settle;
pub(super) mod stream;
mod write_json;

/// OpenAPI tag.
const TAG: &str = "mailbox";
