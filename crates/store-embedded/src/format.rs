//! The magic number of a store's files, which contains the format version.

use oncebox_core::{Error, ErrorKind};

/// The first bytes of the file `store` and of every segment. The last byte is the format version.
pub(crate) const MAGIC: &[u8; 8] = b"ONCEBOX\x03";
const NAME_BYTES: usize = MAGIC.len() - 1;

/// Whether the bytes start with the magic number, of any version.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..NAME_BYTES])
}

/// The format version of bytes that another version of Oncebox wrote. None if only the version byte is damaged: with
/// this version's byte in its place, the bytes pass `is_intact`.
pub(crate) fn other_version(bytes: &[u8], is_intact: impl Fn(&[u8]) -> bool) -> Option<u8> {
    // Versions start at one; a zero is an interrupted write.
    let version = *bytes.get(NAME_BYTES).filter(|version| **version != 0 && has_magic(bytes))?;
    let mut with_ours = bytes.to_vec();
    with_ours[NAME_BYTES] = MAGIC[NAME_BYTES];
    (version != MAGIC[NAME_BYTES] && !is_intact(&with_ours)).then_some(version)
}

/// The error for an intact store of another format version.
pub(crate) fn unsupported(version: u8) -> Error {
    let ours = MAGIC[NAME_BYTES];
    let text = format!(
        "the store has format version {version}, but this version of Oncebox reads only format version {ours}: \
         open it with the version of Oncebox that wrote it"
    );
    Error::new(ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::{MAGIC, other_version};

    #[test]
    fn damage_is_not_mistaken_for_another_version() {
        let intact = |bytes: &[u8]| bytes == b"ONCEBOX\x03 whole";
        assert_eq!(other_version(b"ONCEBOX\x04 other", intact), Some(4));
        assert_eq!(other_version(b"ONCEBOX\x02", intact), Some(2));
        assert_eq!(other_version(b"ONCEBOX\x07 whole", intact), None, "a flipped bit");
        assert_eq!(other_version(b"ONCEBOX\x00 other", intact), None);
        assert_eq!(other_version(b"ONCEBOX", intact), None);
        assert_eq!(other_version(b"ANOTHER\x04", intact), None);
        assert_eq!(other_version(MAGIC, intact), None);
    }
}
