//! Entry points for the fuzz targets and property tests; not part of the API.

use oncebox_core::machine::Capacity;

use crate::codec::{Entry, Reader, Writer, decode_entry, encode, encode_boot};
use crate::engine::Recovering;

/// Decodes bytes as the entries of a group, up to the first invalid one. Returns the number of entries.
///
/// # Panics
/// If the decoder consumes no bytes, an entry is much larger than its encoding, or an entry does not survive a round
/// trip.
pub fn decode(bytes: &[u8]) -> usize {
    let (mut reader, mut entries) = (Reader(bytes), 0);
    while !reader.is_at_end() {
        let before = reader.0.len();
        let Ok(entry) = decode_entry(&mut reader) else { break };
        assert!(reader.0.len() < before, "an entry consumes bytes");
        let encoded = encoded(&entry);
        // A character that an error text may not contain is replaced by one of three bytes.
        assert!(
            encoded.len() <= 3 * (before - reader.0.len()),
            "an entry is at most three times as large as its bytes"
        );
        let mut again = Reader(&encoded);
        let same = decode_entry(&mut again).expect("an encoded entry can be decoded");
        assert!(again.is_at_end(), "an entry ends where its bytes end");
        assert_eq!(format!("{entry:?}"), format!("{same:?}"), "an entry keeps its meaning");
        assert_eq!(encoded, self::encoded(&same), "an entry keeps its meaning");
        entries += 1;
    }
    entries
}

/// Replays bytes as a group on an empty machine. Returns whether they are a valid group.
pub fn replay(bytes: &[u8]) -> bool {
    Recovering::new(Capacity::default()).replay(bytes).is_ok()
}

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut writer = Writer::default();
    match entry {
        Entry::Effect(stored) => encode(&mut writer, stored.record()),
        Entry::Record(record) => record.encode(&mut writer),
        Entry::Boot(boot) => encode_boot(&mut writer, boot),
    }
    writer.0
}
