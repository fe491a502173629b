//! `verify` finds every kind of damage, and changes nothing.

use oncebox_core::ErrorKind;
use oncebox_store_embedded::{Damage, Verified, VerifyFinding, stats, verify};
use oncebox_testkit::{SplitMix, TestResult};

use super::{Directory, accept, close, files, filled, frames};

/// Offset of the first frame of a segment.
const SEGMENT_DATA_OFFSET: usize = 128;

/// The damage that `verify` finds. It must not change anything, and `stats` must fail.
fn damage(directory: &Directory) -> Damage {
    let before = files(&directory.store());
    let verified = verify(&directory.store()).unwrap();
    assert_eq!(stats(&directory.store()).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(files(&directory.store()), before, "verify changes nothing");
    let Verified::Damaged(damage) = verified else { panic!("{verified}") };
    damage
}

fn assert_corrupt(directory: &Directory) {
    let error = directory.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn all_damaged_frames_are_found() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let segments = directory.segments();
    assert!(segments.len() >= 2, "{segments:?}");
    let places: Vec<_> = segments.iter().take(2).map(|name| (name.clone(), frames(&all[name])[3])).collect();
    for (name, offset) in &places {
        directory.flip(name, offset + 90);
    }
    let found = damage(&directory).findings;
    assert_eq!(found.len(), 2);
    for ((name, place), finding) in places.iter().zip(&found) {
        let VerifyFinding::Frames { file, offset, frames: 1, .. } = finding else { panic!("{finding}") };
        assert_eq!((file, *offset), (name, *place as u64));
    }
    assert!(found[0].to_string().contains("frames 4 to 4 cannot be read"), "{}", found[0]);
    assert_corrupt(&directory);
    Ok(())
}

#[test]
fn a_damaged_header_is_found_in_every_segment() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    for (index, name) in directory.segments().iter().enumerate() {
        directory.put(&all);
        directory.flip(name, 20);
        let generation = 1 + index as u64;
        assert_eq!(damage(&directory).findings, [VerifyFinding::Header { file: name.clone(), generation }]);
    }
    Ok(())
}

/// Whichever segment is missing: confirmed writes are lost, and the error names the file.
#[test]
fn a_missing_segment_is_named() -> TestResult {
    let directory = filled()?;
    let store = directory.open()?;
    accept(&store, 100..110)?;
    close(store)?;
    let all = files(&directory.store());
    let segments = directory.segments();
    assert!(segments.len() >= 3, "{segments:?}");
    for (index, name) in segments.iter().enumerate() {
        directory.put(&all);
        std::fs::remove_file(directory.path(name))?;
        let (generation, file) = (1 + index as u64, Some(name.clone()));
        assert_eq!(damage(&directory).findings, [VerifyFinding::Missing { generation, file }]);
        let error = directory.open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.to_string().contains("oncebox store repair"), "{error}");
    }
    Ok(())
}

/// A store that lost its only segment with data is not an empty store.
#[test]
fn a_store_without_its_segments_is_not_an_empty_one() -> TestResult {
    let directory = Directory::new();
    let store = directory.open()?;
    accept(&store, 0..5)?;
    close(store)?;
    let name = directory.segments().pop().ok_or("a segment")?;
    std::fs::remove_file(directory.path(&name))?;
    let missing = [VerifyFinding::Missing { generation: 1, file: Some(name.clone()) }];
    assert_eq!(damage(&directory).findings, missing);
    assert_corrupt(&directory);
    // Remove the blank segments, too.
    for file in files(&directory.store()).into_keys().filter(|file| file != "store") {
        std::fs::remove_file(directory.path(&file))?;
    }
    assert_eq!(damage(&directory).findings, missing);
    let error = directory.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
    Ok(())
}

/// A segment that was started and has no frame yet does not hide that all segments before it are missing.
#[test]
fn an_empty_newest_segment_does_not_hide_missing_ones() -> TestResult {
    let directory = filled()?;
    let mut segments = directory.segments();
    let newest = segments.pop().ok_or("a segment")?;
    let mut bytes = std::fs::read(directory.path(&newest))?;
    bytes[SEGMENT_DATA_OFFSET..].fill(0);
    std::fs::write(directory.path(&newest), bytes)?;
    assert!(!segments.is_empty());
    for name in &segments {
        std::fs::remove_file(directory.path(name))?;
    }
    let (generation, file) = (segments.len() as u64, segments.pop());
    assert_eq!(damage(&directory).findings, [VerifyFinding::Missing { generation, file }]);
    assert_corrupt(&directory);
    Ok(())
}

#[test]
fn the_identity_is_checked() -> TestResult {
    let directory = filled()?;
    directory.flip("store", 12);
    assert_eq!(damage(&directory).findings, [VerifyFinding::Identity]);
    assert_corrupt(&directory);
    std::fs::remove_file(directory.path("store"))?;
    assert_eq!(damage(&directory).findings, [VerifyFinding::Identity]);
    assert_corrupt(&directory);
    let other = filled()?;
    std::fs::copy(other.path("store"), directory.path("store"))?;
    assert_eq!(damage(&directory).findings, [VerifyFinding::Identity]);
    // The id is nowhere.
    std::fs::remove_file(directory.path("store"))?;
    for name in directory.segments() {
        directory.flip(&name, 20);
    }
    assert_eq!(verify(&directory.store()).unwrap_err().kind(), ErrorKind::Corrupt);
    Ok(())
}

#[test]
fn a_segment_of_another_store_is_found() -> TestResult {
    let (directory, other) = (filled()?, filled()?);
    std::fs::copy(other.path(&other.segments()[0]), directory.path("00000999.seg"))?;
    assert_eq!(damage(&directory).findings, [VerifyFinding::Foreign { file: "00000999.seg".to_owned() }]);
    Ok(())
}

/// An intact frame with invalid effects: its checksum is valid.
#[test]
fn a_group_that_cannot_be_decoded_is_found() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let name = directory.segments().remove(0);
    let offset = frames(&all[&name])[2];
    directory.change(&name, |bytes| {
        let length = u32::from_le_bytes(bytes[offset + 4..offset + 8].try_into().unwrap()) as usize;
        bytes[offset + 72] = 99;
        let mut key = [0; 32];
        key[..16].copy_from_slice(&all["store"][8..24]);
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(&bytes[offset..offset + 56]);
        hasher.update(&bytes[offset + 72..offset + 72 + length]);
        let checksum = hasher.finalize();
        bytes[offset + 56..offset + 72].copy_from_slice(&checksum.as_bytes()[..16]);
    });
    let found = damage(&directory).findings;
    let [VerifyFinding::Undecodable { file, offset: place, lsn: 3, .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((file, *place), (&name, offset as u64));
    assert_corrupt(&directory);
    Ok(())
}

#[test]
fn more_than_a_hundred_findings_are_counted() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let mut flipped = 0;
    for name in directory.segments() {
        // Every second frame, so that no two damaged frames are adjacent.
        for offset in frames(&all[&name]).into_iter().step_by(2) {
            directory.flip(&name, offset);
            flipped += 1;
        }
    }
    let few = damage(&directory);
    assert!(few.findings.len() <= 100 && few.unlisted == 0, "{flipped} flipped");
    let directory = Directory::new();
    let store = directory.open()?;
    super::accept(&store, 0..250)?;
    super::close(store)?;
    for name in directory.segments() {
        let bytes = std::fs::read(directory.path(&name))?;
        for offset in frames(&bytes).into_iter().step_by(2).skip(1) {
            directory.flip(&name, offset);
        }
    }
    let many = damage(&directory);
    assert_eq!(many.findings.len(), 100);
    assert!(many.unlisted > 10, "{}", many.unlisted);
    assert!(many.to_string().ends_with(&format!("and {} more", many.unlisted)));
    Ok(())
}

/// `verify` reports damage if and only if the store does not open.
#[test]
fn verify_agrees_with_open() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let segments = directory.segments();
    let mut rng = SplitMix::new(11);
    for round in 0..60 {
        directory.put(&all);
        let name = &segments[usize::try_from(rng.below(segments.len() as u64))?];
        let end = all[name].iter().rposition(|byte| *byte != 0).unwrap() as u64;
        let offset = usize::try_from(128 + rng.below(end - 128 + 200))?.min(all[name].len() - 1);
        directory.flip(name, offset);
        let verified = verify(&directory.store())?;
        let opened = directory.open();
        let sound = !matches!(verified, Verified::Damaged(_));
        assert_eq!(sound, opened.is_ok(), "round {round}: {name} at {offset}: {verified}");
        if let (Verified::Torn(tail), Ok(store)) = (&verified, &opened) {
            assert_eq!(store.torn_tail(), Some(tail));
        }
    }
    Ok(())
}
