//! The text of a key file: `{id} {status} {key as base64url} # comment`, one key per line.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::key::{KeyError, KeyId, RootKey, RootKeyStatus};
use crate::keyring::{Entry, Keyring, check_new};
use crate::limits::KEY_FILE_BYTES_MAX;

const HEADER: &str = "# Root keys of Oncebox, secret. Each line: id, status, key.\n";
/// More than a line has without its comment.
const LINE_BYTES: usize = 192;

/// A key file that cannot be read. Contains nothing of the file but ids of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file is too long.
    #[error("the key file is {given} bytes long, the limit is {KEY_FILE_BYTES_MAX}: remove retired keys")]
    TooLong {
        /// Its length.
        given: usize,
    },
    /// A line has another form.
    #[error("line {line} of the key file: write `<id> <status> <key>`, the key as base64url without padding")]
    Form {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The status is unknown.
    #[error("line {line} of the key file: the status is active, accepted, retired or compromised")]
    Status {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The key cannot be used.
    #[error("line {line} of the key file: {error}")]
    Key {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        error: KeyError,
    },
    /// Two keys are active.
    #[error("line {line} of the key file: another key is active already, mark one of them accepted")]
    SecondActive {
        /// The number of the line, from 1.
        line: usize,
    },
    /// No key is active.
    #[error("no key of the key file is active: add one, or mark one active")]
    NoActive,
}

impl Keyring {
    /// Parses a key file. Empty lines and lines of comment are skipped.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        if text.len() > KEY_FILE_BYTES_MAX {
            return Err(KeyFileError::TooLong { given: text.len() });
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let Some(entry) = parse_line(line, content)? else { continue };
            check_new(&entries, &entry.id, &entry.root).map_err(|error| KeyFileError::Key { line, error })?;
            if is_active(&entry) && entries.iter().any(is_active) {
                return Err(KeyFileError::SecondActive { line });
            }
            entries.push(entry);
        }
        if !entries.iter().any(is_active) {
            return Err(KeyFileError::NoActive);
        }
        Ok(Self::of_entries(entries))
    }

    /// The text of the key file. Comments behind a key are kept, lines of comment are not.
    pub fn to_text(&self) -> Zeroizing<String> {
        let line_bytes = |entry: &Entry| LINE_BYTES + entry.comment.as_ref().map_or(0, String::len);
        // Never grows, which would leave a copy of keys behind.
        let bytes = HEADER.len() + self.entries().iter().map(line_bytes).sum::<usize>();
        let mut text = Zeroizing::new(String::with_capacity(bytes));
        text.push_str(HEADER);
        for Entry { id, status, root, comment } in self.entries() {
            let key = Zeroizing::new(URL_SAFE_NO_PAD.encode(root.as_bytes()));
            let comment = comment.as_ref().map_or(String::new(), |comment| format!(" # {comment}"));
            writeln!(text, "{id} {status} {}{comment}", *key).expect("writing to a string cannot fail");
        }
        text
    }
}

fn is_active(entry: &Entry) -> bool {
    entry.status == RootKeyStatus::Active
}

/// The key of a line; none if it has only space and comment. Errors never show the words of the line: one of them may
/// be the key, in the wrong place.
fn parse_line(line: usize, content: &str) -> Result<Option<Entry>, KeyFileError> {
    let (words, comment) = match content.split_once('#') {
        Some((words, comment)) => (words, comment.trim()),
        None => (content, ""),
    };
    let mut words = words.split_ascii_whitespace();
    let Some(id) = words.next() else { return Ok(None) };
    let (Some(status), Some(key), None) = (words.next(), words.next(), words.next()) else {
        return Err(KeyFileError::Form { line });
    };
    let wrong_key = |error| KeyFileError::Key { line, error };
    let id = KeyId::new(id).map_err(wrong_key)?;
    let status = RootKeyStatus::from_name(status).ok_or(KeyFileError::Status { line })?;
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(key).map_err(|_| KeyFileError::Form { line })?);
    let root = RootKey::new(&bytes).map_err(wrong_key)?;
    let comment = (!comment.is_empty()).then(|| comment.to_owned());
    Ok(Some(Entry { id, status, root, comment }))
}

#[cfg(test)]
mod tests;
