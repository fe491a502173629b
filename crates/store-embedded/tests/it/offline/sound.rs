//! What the tools say about a sound store, and that they leave it alone.

use oncebox_core::{Kind, Namespace, StoreExt};
use oncebox_store_embedded::{Repaired, Verified, repair, stats, verify};
use oncebox_testkit::{TestResult, block_on};

use super::{Directory, SEGMENT_BYTES, accept, claim, close, files, filled, frames};

#[test]
fn a_sound_store_is_sound_and_not_a_byte_changes() -> TestResult {
    let directory = filled()?;
    let before = files(&directory.store());
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    stats(&directory.store())?;
    let repaired = repair(&directory.store(), &directory.copy())?;
    assert_eq!(repaired, Repaired::Nothing(Verified::Sound));
    assert!(repaired.to_string().contains("nothing to repair"), "{repaired}");
    assert!(!directory.copy().exists(), "there was no need for a copy");
    assert_eq!(files(&directory.store()), before);
    // A copy from elsewhere may lack the lock.
    std::fs::remove_file(directory.path("lock"))?;
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    assert!(!directory.path("lock").exists());
    Ok(())
}

#[test]
fn a_torn_end_is_told_and_left_to_the_next_opening() -> TestResult {
    let directory = Directory::new();
    let store = directory.open()?;
    accept(&store, 0..20)?;
    close(store)?;
    directory.unclose();
    let segment = directory.segments().remove(0);
    let end = frames(&std::fs::read(directory.path(&segment))?).pop().unwrap();
    directory.flip(&segment, end + 80);
    let before = files(&directory.store());
    let verified = verify(&directory.store())?;
    let Verified::Torn(cut) = &verified else { panic!("{verified}") };
    assert_eq!((&cut.segment, cut.offset), (&segment, end as u64));
    assert_eq!(repair(&directory.store(), &directory.copy())?, Repaired::Nothing(verified.clone()));
    assert_eq!(files(&directory.store()), before);
    assert_eq!(directory.open()?.cut(), Some(cut));
    Ok(())
}

#[test]
fn a_store_that_is_open_is_left_alone() -> TestResult {
    let directory = Directory::new();
    let store = directory.open()?;
    accept(&store, 0..3)?;
    let process = format!("process {}", std::process::id());
    for error in [
        verify(&directory.store()).unwrap_err(),
        repair(&directory.store(), &directory.copy()).unwrap_err(),
        stats(&directory.store()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains(&process), "{error}");
    }
    assert!(!directory.copy().exists());
    close(store)?;
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    let nowhere = verify(&directory.copy()).unwrap_err();
    assert_eq!(nowhere.kind(), Kind::Invalid, "{nowhere}");
    std::fs::create_dir(directory.copy())?;
    let empty = verify(&directory.copy()).unwrap_err();
    assert_eq!(empty.kind(), Kind::Invalid, "{empty}");
    Ok(())
}

#[test]
fn the_figures_are_right() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let found = stats(&directory.store())?;
    assert_eq!(found.epoch, 1);
    assert_eq!(found.id.to_be_bytes(), all["store"][8..24]);
    let begun = directory.segments();
    let segments = all.keys().filter(|name| *name != "store" && *name != "lock").count() as u64;
    assert_eq!(found.live.count, begun.len() as u64);
    assert_eq!(found.live.bytes, begun.len() as u64 * SEGMENT_BYTES);
    assert_eq!(found.live.count + found.unneeded.count + found.blank.count, segments);
    let written: Vec<_> = begun.iter().map(|name| frames(&all[name])).collect();
    let frames = written.iter().map(|frames| frames.len() as u64).sum();
    assert_eq!(found.lsns, Some((1, frames)));
    assert!(found.groups > 100 && found.groups <= frames, "{found}");
    assert!(found.frame_bytes > 100_000 && found.frame_bytes < found.live.bytes, "{found}");
    let (_, inbox) = found.messages.iter().find(|(namespace, _)| *namespace == Namespace::Inbox).unwrap();
    assert_eq!((inbox.ready, inbox.done, inbox.leased), (90, 10, 0));
    assert_eq!(found.time, oncebox_core::Clock::now(&*directory.clock));
    assert!(found.closed);

    let store = directory.open()?;
    block_on(store.claim(&claim(5)))?;
    close(store)?;
    directory.unclose();
    let found = stats(&directory.store())?;
    let (_, inbox) = found.messages[0];
    assert_eq!((found.epoch, found.closed, inbox.leased), (2, false, 5));
    assert!(found.to_string().contains("85 ready"), "{found}");
    Ok(())
}
