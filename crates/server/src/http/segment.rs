//! Parts of a path that name something.

use super::refusal::Refusal;

/// Longest name in a path; receipts, the longest of ours, are shorter.
const BYTES_MAX: usize = 256;

/// The same text, unless it is longer than any name of ours.
pub(super) fn short(text: &str) -> Result<&str, Refusal> {
    if text.len() > BYTES_MAX {
        return Err(Refusal::schema("the name in the path is longer than any of ours"));
    }
    Ok(text)
}
