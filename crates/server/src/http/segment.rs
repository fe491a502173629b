//! Path parameters.

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
