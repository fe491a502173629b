//! The memory of a process, searched for what was sent through it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::talk::base64;

const PAGE_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 256 * PAGE_BYTES;

/// Random bytes that stand nowhere but in the payloads of one test.
pub(crate) struct Marker([u8; Self::BYTES]);

impl Marker {
    /// A multiple of three: every repetition has the same base64.
    const BYTES: usize = 48;
    /// How much of it is searched for: a copy that was cut or overwritten in part is still found.
    const PART: Range<usize> = 12..36;

    pub(crate) fn draw() -> Self {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).expect("random bytes");
        Self(bytes)
    }

    /// The marker again and again, `before` bytes from the beginning: of three such payloads no two have the same base64.
    pub(crate) fn payload(&self, before: usize, repeats: usize) -> Vec<u8> {
        [vec![b'-'; before], self.0.repeat(repeats)].concat()
    }

    /// What it may look like: as it is, and in base64 at each of the three places that a byte can have there.
    fn looks(&self) -> Vec<Vec<u8>> {
        let encoded = (0..3).map(|before| {
            let text = base64(self.payload(before, 1)).into_bytes();
            // Characters that depend on the marker alone: not on what stands before it.
            text[16..40].to_vec()
        });
        encoded.chain([self.0[Self::PART].to_vec()]).collect()
    }

    /// Where in the memory of a process it is found, in any look.
    pub(crate) fn found_in(&self, process: u32) -> Vec<String> {
        let memory = File::open(format!("/proc/{process}/mem")).expect("the memory of a child");
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("the process lives");
        let looks = self.looks();
        let mut found = Vec::new();
        for map in maps.lines().filter(|map| map.split(' ').nth(1).is_some_and(|rights| rights.contains('w')))
        {
            let name = map.split_ascii_whitespace().nth(5).unwrap_or("heap");
            search(&memory, addresses(map), |bytes| {
                let looks = looks.iter().enumerate().filter(|(_, look)| contains(bytes, look));
                found.extend(looks.map(|(look, _)| format!("{} in {name}", LOOKS[look])));
            });
        }
        found
    }
}

const LOOKS: [&str; 4] = ["base64", "base64 from the second byte", "base64 from the third byte", "the bytes"];

fn addresses(map: &str) -> Range<u64> {
    let (start, end) = map.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
    let address = |text| u64::from_str_radix(text, 16).expect("an address");
    address(start)..address(end)
}

/// Shows all bytes at these addresses that were ever written, in pieces that overlap.
fn search(memory: &File, addresses: Range<u64>, mut look: impl FnMut(&[u8])) {
    let mut chunk = vec![0; CHUNK_BYTES + PAGE_BYTES];
    for start in addresses.clone().step_by(CHUNK_BYTES) {
        let length = usize::try_from(addresses.end - start).unwrap_or(usize::MAX).min(chunk.len());
        // What cannot be read cannot hold anything.
        if memory.read_exact_at(&mut chunk[..length], start).is_err() {
            continue;
        }
        let pages = chunk[..length].chunks(PAGE_BYTES);
        let written: Vec<_> = pages.map(|page| page != &[0; PAGE_BYTES][..page.len()]).collect();
        for run in runs(&written) {
            look(&chunk[run.start * PAGE_BYTES..(run.end * PAGE_BYTES).min(length)]);
        }
    }
}

/// Where `true` stands side by side.
fn runs(flags: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for place in (0..flags.len()).filter(|place| flags[*place]) {
        match runs.last_mut() {
            Some(run) if run.end == place => run.end += 1,
            _ => runs.push(place..place + 1),
        }
    }
    runs
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(place) = rest.iter().position(|byte| *byte == part[0]) {
        if rest[place..].starts_with(part) {
            return true;
        }
        rest = &rest[place + 1..];
    }
    false
}

#[test]
fn a_marker_is_found_in_this_process_in_every_look() {
    let marker = Marker::draw();
    for (before, look) in LOOKS.into_iter().enumerate().take(3) {
        let kept = base64(marker.payload(before, 1));
        let found = marker.found_in(std::process::id());
        assert!(found.iter().any(|found| found.starts_with(look)), "{before}: {found:?}");
        drop(kept);
    }
}
