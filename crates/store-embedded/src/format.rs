//! The first bytes of a store's files, and the format version that they name.

use oncebox_core::{Error, Kind};

/// What the file `store` and every segment begin with. The last byte is the format version.
pub(crate) const MAGIC: &[u8; 8] = b"ONCEBOX\x03";
const NAME_BYTES: usize = MAGIC.len() - 1;

/// Whether a file of a store begins like this, whatever its version.
pub(crate) fn begins_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..NAME_BYTES])
}

/// The version of bytes that another version of Oncebox wrote. None if they are damaged: if they are whole but for their version, as
/// `is_whole` says of them with ours, that one byte was changed.
pub(crate) fn other_version(bytes: &[u8], is_whole: impl Fn(&[u8]) -> bool) -> Option<u8> {
    // Versions are counted from one; a zero is a write that was interrupted.
    let version = *bytes.get(NAME_BYTES).filter(|version| **version != 0 && begins_ours(bytes))?;
    let mut with_ours = bytes.to_vec();
    with_ours[NAME_BYTES] = MAGIC[NAME_BYTES];
    (version != MAGIC[NAME_BYTES] && !is_whole(&with_ours)).then_some(version)
}

/// The store is sound, and not for this version of Oncebox.
pub(crate) fn unsupported(version: u8) -> Error {
    let ours = MAGIC[NAME_BYTES];
    let text = format!(
        "the store has format version {version}, and this version of Oncebox reads only format version {ours}: \
         open it with the version of Oncebox that wrote it"
    );
    Error::new(Kind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::{MAGIC, other_version};

    #[test]
    fn damage_is_not_taken_for_another_version() {
        let whole = |bytes: &[u8]| bytes == b"ONCEBOX\x03 whole";
        assert_eq!(other_version(b"ONCEBOX\x04 other", whole), Some(4));
        assert_eq!(other_version(b"ONCEBOX\x02", whole), Some(2));
        assert_eq!(other_version(b"ONCEBOX\x07 whole", whole), None, "a flipped bit");
        assert_eq!(other_version(b"ONCEBOX\x00 other", whole), None);
        assert_eq!(other_version(b"ONCEBOX", whole), None);
        assert_eq!(other_version(b"ANOTHER\x04", whole), None);
        assert_eq!(other_version(MAGIC, whole), None);
    }
}
