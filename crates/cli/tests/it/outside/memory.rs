//! Searches the memory of a process for payloads.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::mailbox_client::base64;

const PAGE_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 256 * PAGE_BYTES;

/// Random bytes that occur only in the payloads of one test.
pub(crate) struct Marker([u8; Self::BYTES]);

impl Marker {
    /// A multiple of three, so that every repetition has the same base64.
    const BYTES: usize = 48;
    /// The part that is searched for, so that a truncated or partly overwritten copy is still found.
    const PART: Range<usize> = 12..36;

    pub(crate) fn random() -> Self {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).expect("random bytes");
        Self(bytes)
    }

    /// Repetitions of the marker after `before` other bytes. The base64 differs for `before` 0, 1 and 2.
    pub(crate) fn payload(&self, before: usize, repeats: usize) -> Vec<u8> {
        [vec![b'-'; before], self.0.repeat(repeats)].concat()
    }

    /// The byte sequences to search for: the raw bytes, and the base64 at each of the three alignments.
    fn encodings(&self) -> Vec<Vec<u8>> {
        let encoded = (0..3).map(|before| {
            let text = base64(self.payload(before, 1)).into_bytes();
            // Only characters that depend on the marker alone, not on the bytes before it.
            text[16..40].to_vec()
        });
        encoded.chain([self.0[Self::PART].to_vec()]).collect()
    }

    /// Where the marker is found in the memory of a process, in any encoding.
    pub(crate) fn found_in(&self, process: u32) -> Vec<String> {
        let memory = File::open(format!("/proc/{process}/mem")).expect("the memory of a child");
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("the process runs");
        let encodings = self.encodings();
        let mut found = Vec::new();
        for map in maps.lines().filter(|map| map.split(' ').nth(1).is_some_and(|rights| rights.contains('w')))
        {
            let name = map.split_ascii_whitespace().nth(5).unwrap_or("heap");
            search(&memory, addresses(map), |bytes| {
                let encodings =
                    encodings.iter().enumerate().filter(|(_, encoding)| contains(bytes, encoding));
                found.extend(encodings.map(|(index, _)| format!("{} in {name}", ENCODINGS[index])));
            });
        }
        found
    }
}

const ENCODINGS: [&str; 4] =
    ["base64", "base64 from the second byte", "base64 from the third byte", "the bytes"];

fn addresses(map: &str) -> Range<u64> {
    let (start, end) = map.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
    let address = |text| u64::from_str_radix(text, 16).expect("an address");
    address(start)..address(end)
}

/// Visits all bytes at these addresses that were ever written, in overlapping chunks.
fn search(memory: &File, addresses: Range<u64>, mut visit: impl FnMut(&[u8])) {
    let mut chunk = vec![0; CHUNK_BYTES + PAGE_BYTES];
    for start in addresses.clone().step_by(CHUNK_BYTES) {
        let length = usize::try_from(addresses.end - start).unwrap_or(usize::MAX).min(chunk.len());
        // Unreadable memory cannot contain a copy.
        if memory.read_exact_at(&mut chunk[..length], start).is_err() {
            continue;
        }
        let pages = chunk[..length].chunks(PAGE_BYTES);
        let written: Vec<_> = pages.map(|page| page != &[0; PAGE_BYTES][..page.len()]).collect();
        for run in runs(&written) {
            visit(&chunk[run.start * PAGE_BYTES..(run.end * PAGE_BYTES).min(length)]);
        }
    }
}

/// The ranges of consecutive `true` values.
fn runs(flags: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for index in (0..flags.len()).filter(|index| flags[*index]) {
        match runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(index) = rest.iter().position(|byte| *byte == part[0]) {
        if rest[index..].starts_with(part) {
            return true;
        }
        rest = &rest[index + 1..];
    }
    false
}

#[test]
fn a_marker_is_found_in_this_process_in_every_encoding() {
    let marker = Marker::random();
    for (before, encoding) in ENCODINGS.into_iter().enumerate().take(3) {
        let kept = base64(marker.payload(before, 1));
        let found = marker.found_in(std::process::id());
        assert!(found.iter().any(|found| found.starts_with(encoding)), "{before}: {found:?}");
        drop(kept);
    }
}
