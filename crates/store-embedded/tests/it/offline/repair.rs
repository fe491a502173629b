//! `repair` copies first, keeps everything readable, never reuses a fence, and can be interrupted at any point.

use std::time::Duration;

use oncebox_core::{
    Accepted, Budget, Delivery, Error, ErrorKind, MessageState, RecordId, RecordKind, RecordOp,
    RecordOutcome, RecordValue, Store, StoreExt, WhenFull, WriteCondition,
};
use oncebox_store_embedded::{
    EmbeddedStore, RepairReport, Repaired, Verified, VerifyFinding, repair, verify,
};
use oncebox_testkit::{SplitMix, TestResult, block_on};

use super::{Directory, accept, claim, close, files, filled, frames, known, message};

fn repaired(directory: &Directory) -> RepairReport {
    let before = files(&directory.store());
    let done = repair(&directory.store(), &directory.copy()).unwrap();
    let Repaired::Done(report) = done else { panic!("{done}") };
    assert_eq!(files(&directory.copy()), before, "the copy equals the original directory");
    assert_eq!(verify(&directory.store()).unwrap(), Verified::Sound);
    report
}

#[test]
fn everything_readable_before_and_after_damage_is_kept() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let segments = directory.segments();
    // The acceptance of one message; the boot record is the first frame.
    let lost: Vec<_> = (1..=frames(&all[&segments[1]]).len() / 2).step_by(7).collect();
    for index in &lost {
        directory.flip(&segments[1], frames(&all[&segments[1]])[*index] + 100);
    }
    let report = repaired(&directory);
    assert_eq!(report.frames_lost, lost.len() as u64, "{report}");
    assert_eq!(report.losses.len(), lost.len());
    assert!(report.is_lossy() && report.rewritten && report.bytes_lost > 1_000, "{report}");
    let store = directory.open()?;
    let there = known(&store)?;
    assert_eq!(report.messages_kept, Some(there.len() as u64));
    assert_eq!(there.len(), 100 - lost.len());
    assert!((0..20).all(|id| there.contains(&id)), "nothing before the damage is lost: {there:?}");
    assert!(there.contains(&99), "nor after it: {there:?}");
    block_on(async {
        for id in 0..10 {
            let found = store.get_one(&message(id).key.into()).await?.unwrap();
            assert_eq!(found.state, MessageState::Done);
        }
        assert!(matches!(store.accept_one(&message(99)).await?, Accepted::Duplicate { .. }));
        // Leases may have been lost: their holders get the time to settle.
        assert_eq!(store.claim(&claim(100)).await?.len(), 0);
        directory.clock.advance(Duration::from_secs(31));
        assert_eq!(store.claim(&claim(100)).await?.len(), 90 - lost.len());
        Ok(())
    })
}

const KIND: RecordKind = RecordKind::new("state", 100, WhenFull::Refuse);

fn put(store: &EmbeddedStore, id: &str) -> Result<RecordOutcome, Error> {
    let (id, value) = (RecordId::new(id).unwrap(), RecordValue::new(id.to_owned()).unwrap());
    block_on(store.record(RecordOp::Put {
        kind: KIND,
        id,
        value,
        condition: WriteCondition::Always,
        keep: None,
    }))
}

/// Records are kept like messages. Writes may have been lost, so versions continue above all that were given.
#[test]
fn records_are_kept_and_no_version_is_given_again() -> TestResult {
    let directory = filled()?;
    let store = directory.open()?;
    put(&store, "kept")?;
    accept(&store, 200..300)?;
    let RecordOutcome::Written(lost) = put(&store, "lost-in-the-damage")? else { panic!("it fits") };
    accept(&store, 300..302)?;
    // The process is killed: nothing after this repeats the last version.
    let left = files(&directory.store());
    drop(store);
    directory.put(&left);
    let place = |bytes: &[u8]| bytes.windows(18).position(|window| window == b"lost-in-the-damage");
    let (name, place) = left.iter().find_map(|(name, bytes)| Some((name, place(bytes)?))).unwrap();
    directory.flip(name, place);
    let report = repaired(&directory);
    assert_eq!(report.frames_lost, 1, "{report}");
    let store = directory.open()?;
    let get = |id: &str| block_on(store.record(RecordOp::Get { kind: KIND, id: RecordId::new(id).unwrap() }));
    assert!(matches!(get("kept")?, RecordOutcome::Found(Some(_))));
    assert_eq!(get("lost-in-the-damage")?, RecordOutcome::Found(None));
    let again = put(&store, "again")?;
    assert!(matches!(again, RecordOutcome::Written(version) if version > lost), "{again:?} after {lost:?}");
    Ok(())
}

/// Whichever segment is missing, repair continues with the remaining ones.
#[test]
fn repair_continues_after_a_missing_segment() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    for name in directory.segments() {
        let _ = std::fs::remove_dir_all(directory.copy());
        directory.put(&all);
        std::fs::remove_file(directory.path(&name))?;
        let report = repaired(&directory);
        assert!(report.is_lossy() && report.rewritten, "{report}");
        let store = directory.open()?;
        let there = known(&store)?;
        assert_eq!(report.messages_kept, Some(there.len() as u64));
        assert!(there.len() < 100 && there.len() >= 20, "{name}: {there:?}");
        accept(&store, 200..201)?;
        close(store)?;
        assert_eq!(verify(&directory.store())?, Verified::Sound);
    }
    Ok(())
}

/// The grant is lost; the settlement after it counts.
#[test]
fn a_settlement_counts_even_if_its_lease_was_lost() -> TestResult {
    let directory = Directory::new();
    let store = directory.open()?;
    accept(&store, 0..3)?;
    let before = frames(&std::fs::read(directory.path(&directory.segments()[0]))?).len();
    block_on(async {
        let deliveries = store.claim(&claim(3)).await?;
        assert!(store.settle(&[deliveries[0].ack()]).await?.len() == 1);
        store.close().await
    })?;
    drop(store);
    let segment = directory.segments().remove(0);
    let grant = frames(&std::fs::read(directory.path(&segment))?)[before];
    directory.flip(&segment, grant + 75);
    let report = repaired(&directory);
    assert!(report.is_lossy(), "{report}");
    let store = directory.open()?;
    block_on(async {
        let found = store.get_one(&message(0).key.into()).await?.unwrap();
        assert_eq!(found.state, MessageState::Done);
        Ok(())
    })
}

#[test]
fn fences_after_a_repair_are_higher_than_any_before() -> TestResult {
    let directory = filled()?;
    let mut last = None;
    for _ in 0..3 {
        let store = directory.open()?;
        let deliveries = block_on(store.claim(&claim(2)))?;
        last = deliveries.iter().map(|delivery: &Delivery| delivery.lease.fence).max().max(last);
        close(store)?;
    }
    // Damages the headers of the last two epochs' segments, and all content of the last one.
    let segments = directory.segments();
    let (newest, before) = (&segments[segments.len() - 1], &segments[segments.len() - 2]);
    directory.change(newest, |bytes| bytes[..1_000].fill(0xEE));
    directory.flip(before, 3);
    let report = repaired(&directory);
    assert!(!report.found.findings.is_empty());
    let store = directory.open()?;
    directory.clock.advance(Duration::from_secs(3_600));
    let again = block_on(store.claim(&claim(100)))?;
    assert!(!again.is_empty() && again.iter().all(|delivery| Some(delivery.lease.fence) > last));
    Ok(())
}

#[test]
fn a_damaged_header_loses_nothing() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    for (index, name) in directory.segments().iter().enumerate() {
        directory.put(&all);
        directory.flip(name, 30);
        let copy = directory.root.join(format!("copy-{index}"));
        let Repaired::Done(report) = repair(&directory.store(), &copy)? else { panic!("it is damaged") };
        assert!(!report.is_lossy() && report.rewritten, "{report}");
        assert!(report.to_string().ends_with("nothing was lost"), "{report}");
        let store = directory.open()?;
        assert_eq!(known(&store)?.len(), 100);
        assert_eq!(block_on(store.claim(&claim(100)))?.len(), 90, "nothing is held back");
    }
    Ok(())
}

#[test]
fn the_store_file_is_restored_from_the_segments() -> TestResult {
    let directory = filled()?;
    let before = files(&directory.store());
    std::fs::remove_file(directory.path("store"))?;
    let report = repaired(&directory);
    assert_eq!(report.found.findings, [VerifyFinding::Identity]);
    assert!(!report.rewritten && !report.is_lossy());
    let after = files(&directory.store());
    for (name, bytes) in &before {
        // Of the file `store`, only the id: its slots differ.
        let compared = if name == "store" { 40 } else { bytes.len() };
        assert!(name == "lock" || after[name][..compared] == bytes[..compared], "{name} has changed");
    }
    directory.flip("store", 3);
    repair(&directory.store(), &directory.root.join("second"))?;
    assert_eq!(known(&directory.open()?)?.len(), 100);
    Ok(())
}

#[test]
fn a_missing_segment_is_reported_as_lost() -> TestResult {
    let directory = filled()?;
    let segments = directory.segments();
    std::fs::remove_file(directory.path(&segments[0]))?;
    let report = repaired(&directory);
    assert_eq!(report.losses.len(), 1);
    assert_eq!((report.losses[0].first_lsn, report.losses[0].after), (None, None));
    assert!(report.losses[0].before.is_some() && report.is_lossy(), "{report}");
    let there = known(&directory.open()?)?;
    assert!(there.contains(&99) && !there.contains(&0), "{there:?}");
    Ok(())
}

/// Files that are not the store's are neither changed nor copied, and need not be readable.
#[test]
fn a_repair_leaves_other_files_alone() -> TestResult {
    let directory = filled()?;
    directory.flip("store", 12);
    let before = files(&directory.store());
    std::fs::write(directory.path("README"), "not ours")?;
    std::os::unix::fs::symlink("nowhere", directory.path("dangling"))?;
    let Repaired::Done(_) = repair(&directory.store(), &directory.copy())? else { panic!("it was damaged") };
    assert_eq!(files(&directory.copy()), before);
    assert_eq!(std::fs::read(directory.path("README"))?, b"not ours");
    assert!(directory.path("dangling").is_symlink());
    drop(directory.open()?);
    Ok(())
}

#[test]
fn a_copy_never_overwrites_and_is_never_inside_the_store() -> TestResult {
    let directory = filled()?;
    directory.flip(&directory.segments()[0], 400);
    std::fs::create_dir(directory.copy())?;
    let before = files(&directory.store());
    for place in [directory.copy(), directory.path("copy")] {
        let error = repair(&directory.store(), &place).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(files(&directory.store()), before);
    Ok(())
}

/// A store whose repair was interrupted by a crash does not open; another repair has the same result.
#[test]
fn an_interrupted_repair_can_be_repeated() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let segments = directory.segments();
    directory.flip(&segments[1], frames(&all[&segments[1]])[5] + 100);
    let damaged = files(&directory.store());
    let report = repaired(&directory);
    let done = files(&directory.store());
    let fresh = directory.segments();
    assert!(fresh.len() > 1, "the new journal has several segments");
    // How many of the new headers are written already, the last ones first; and how many bytes of which file.
    let mut leftovers: Vec<_> = (0..fresh.len()).map(|headers| (headers, fresh.len(), 0)).collect();
    for (index, name) in fresh.iter().enumerate() {
        let places = frames(&done[name]);
        leftovers
            .extend([0, places[places.len() / 2] + 30, places[places.len() - 1]].map(|end| (0, index, end)));
    }
    for (round, (headers, index, end)) in leftovers.into_iter().enumerate() {
        let mut left = damaged.clone();
        for (place, name) in fresh.iter().enumerate() {
            let mut bytes = done[name].clone();
            if place + headers < fresh.len() {
                bytes[..128].fill(0);
            }
            if place >= index {
                bytes[if place == index { end } else { 0 }..].fill(0);
            }
            left.insert(name.clone(), bytes);
        }
        directory.put(&left);
        assert_eq!(directory.open().unwrap_err().kind(), ErrorKind::Corrupt, "round {round}");
        directory.put(&left);
        let again = repair(&directory.store(), &directory.root.join(format!("copy-{round}")))?;
        let Repaired::Done(again) = again else { panic!("round {round}: {again}") };
        assert_eq!(again.messages_kept, report.messages_kept, "round {round}: {again}");
        assert_eq!(known(&directory.open()?)?.len(), 99, "round {round}");
    }
    Ok(())
}

/// A store with a long history: opened five times, reclaimed, with leases, finished and removed messages.
fn long_lived() -> Result<Directory, Box<dyn std::error::Error + Send + Sync>> {
    let directory = Directory::new();
    for round in 0..5_usize {
        let store = directory.open()?;
        accept(&store, round * 100..round * 100 + 80)?;
        block_on(async {
            let deliveries = store.claim(&claim(70)).await?;
            let acks: Vec<_> = deliveries.iter().take(60).map(Delivery::ack).collect();
            store.settle(&acks).await?;
            directory.clock.advance(Duration::from_secs(20 * 24 * 60 * 60));
            store.maintain(Budget::new(1_000)).await
        })?;
        accept(&store, round * 100 + 80..round * 100 + 90)?;
        close(store)?;
    }
    Ok(directory)
}

#[test]
fn a_repaired_store_is_sound_and_opens_whatever_was_damaged() -> TestResult {
    let directory = long_lived()?;
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    let all = files(&directory.store());
    let segments = directory.segments();
    let begins = u64::from_le_bytes(all[&segments[0]][24..32].try_into()?);
    assert!(begins > 1 && segments.len() > 3, "from generation {begins}: {segments:?}");
    let mut rng = SplitMix::new(5);
    let mut lossy = 0;
    for round in 0..12 {
        directory.put(&all);
        for _ in 0..=rng.below(6) {
            let name = &segments[usize::try_from(rng.below(segments.len() as u64))?];
            let offset = usize::try_from(rng.below(all[name].len() as u64 - 4_096))?;
            let (kind, place) = (rng.below(8), usize::try_from(rng.below(64))?);
            directory.change(name, |bytes| match kind {
                0 => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 4),
                1 => bytes.iter_mut().skip(offset).take(4_096).for_each(|byte| *byte = 0),
                2 => bytes.truncate(offset),
                3 => bytes.fill(0),
                _ => bytes.iter_mut().skip(offset).take(64).for_each(|byte| *byte = 0xA5),
            });
        }
        let copy = directory.root.join(format!("copy-{round}"));
        let repaired = repair(&directory.store(), &copy)?;
        if let Repaired::Done(report) = &repaired {
            lossy += u32::from(report.is_lossy());
            assert_eq!(verify(&directory.store())?, Verified::Sound, "round {round}: {report}");
        }
        let store = directory.open()?;
        directory.clock.advance(Duration::from_secs(60));
        let claimed = block_on(store.claim(&claim(100)))?;
        if let Repaired::Done(RepairReport { messages_kept: Some(kept), .. }) = repaired {
            assert!(claimed.len() as u64 <= kept);
        }
        close(store)?;
        assert_eq!(verify(&directory.store())?, Verified::Sound, "round {round}");
        let _ = std::fs::remove_dir_all(copy);
    }
    assert!(lossy > 6, "{lossy} rounds lost something");
    Ok(())
}
