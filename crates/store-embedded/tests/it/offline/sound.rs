//! `verify`, `repair` and `stats` on a sound store, which they do not change.

use oncebox_core::{ErrorKind, Namespace, StoreExt};
use oncebox_store_embedded::{Repaired, Verified, repair, stats, verify};
use oncebox_testkit::{TestResult, block_on};

use super::{Directory, SEGMENT_BYTES, accept, claim, close, files, filled, frames};

#[test]
fn a_sound_store_is_reported_as_sound_and_not_changed() -> TestResult {
    let directory = filled()?;
    let before = files(&directory.store());
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    stats(&directory.store())?;
    let repaired = repair(&directory.store(), &directory.copy())?;
    assert_eq!(repaired, Repaired::Nothing(Verified::Sound));
    assert!(repaired.to_string().contains("nothing to repair"), "{repaired}");
    assert!(!directory.copy().exists(), "no copy is needed");
    assert_eq!(files(&directory.store()), before);
    // A copied store may lack the file `lock`.
    std::fs::remove_file(directory.path("lock"))?;
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    assert!(!directory.path("lock").exists());
    Ok(())
}

#[test]
fn a_torn_tail_is_reported_and_left_to_the_next_open() -> TestResult {
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
    let Verified::Torn(tail) = &verified else { panic!("{verified}") };
    assert_eq!((&tail.segment, tail.offset), (&segment, end as u64));
    assert_eq!(repair(&directory.store(), &directory.copy())?, Repaired::Nothing(verified.clone()));
    assert_eq!(files(&directory.store()), before);
    assert_eq!(directory.open()?.torn_tail(), Some(tail));
    Ok(())
}

#[test]
fn an_open_store_is_left_alone() -> TestResult {
    let directory = Directory::new();
    let store = directory.open()?;
    accept(&store, 0..3)?;
    let process = format!("process {}", std::process::id());
    for error in [
        verify(&directory.store()).unwrap_err(),
        repair(&directory.store(), &directory.copy()).unwrap_err(),
        stats(&directory.store()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(&process), "{error}");
    }
    assert!(!directory.copy().exists());
    close(store)?;
    assert_eq!(verify(&directory.store())?, Verified::Sound);
    let nowhere = verify(&directory.copy()).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::Invalid, "{nowhere}");
    std::fs::create_dir(directory.copy())?;
    let empty = verify(&directory.copy()).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Invalid, "{empty}");
    Ok(())
}

#[test]
fn statistics_are_correct() -> TestResult {
    let directory = filled()?;
    let all = files(&directory.store());
    let found = stats(&directory.store())?;
    assert_eq!(found.epoch, 1);
    assert_eq!(found.id.to_be_bytes(), all["store"][8..24]);
    let started = directory.segments();
    let segments = all.keys().filter(|name| *name != "store" && *name != "lock").count() as u64;
    assert_eq!(found.live.count, started.len() as u64);
    assert_eq!(found.live.bytes, started.len() as u64 * SEGMENT_BYTES);
    assert_eq!(found.live.count + found.obsolete.count + found.free.count, segments);
    let written: Vec<_> = started.iter().map(|name| frames(&all[name])).collect();
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
