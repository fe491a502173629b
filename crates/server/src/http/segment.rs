//! Path parameters and message ids.

use oncebox::{mailbox::MsgId, message::Uid};

use super::api_error::ApiError;

/// Maximum length of a path parameter; receipts, the longest ones, are shorter.
const BYTES_MAX: usize = 256;

/// Returns the text unless it is longer than any valid id.
pub(super) fn check_length(text: &str) -> Result<&str, ApiError> {
    if text.len() > BYTES_MAX {
        return Err(ApiError::schema("the id in the path is longer than 256 bytes"));
    }
    Ok(text)
}

/// Parses a message id, which is a ULID or a UUID.
pub(super) fn uid(text: &str) -> Result<Uid, ApiError> {
    let text = check_length(text)?;
    let uid = text.parse::<Uid>().or_else(|_| text.parse::<MsgId>().map(MsgId::uid));
    uid.map_err(|_| ApiError::schema("the id is neither a ULID nor a UUID"))
}
