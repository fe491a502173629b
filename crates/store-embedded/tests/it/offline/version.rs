//! A store of another format version is neither reported as damaged nor changed.

use oncebox_core::ErrorKind;
use oncebox_store_embedded::{Verified, VerifyFinding, repair, stats, verify};
use oncebox_testkit::TestResult;

use super::{Directory, files, filled};

/// Number of bytes covered by the checksum that follows them: in the file `store`, and in a segment header.
const STORE_CHECKED: usize = 24;
const HEADER_CHECKED: usize = 72;

/// Sets the version of a file, with a valid checksum.
fn set_version(directory: &Directory, name: &str, version: u8, checked: usize) {
    directory.change(name, |bytes| {
        bytes[7] = version;
        let checksum = blake3::hash(&bytes[..checked]);
        bytes[checked..checked + 16].copy_from_slice(&checksum.as_bytes()[..16]);
    });
}

/// Checks that opening and all tools fail with an error that names the version.
#[track_caller]
fn is_unsupported(directory: &Directory, version: u8) {
    let before = files(&directory.store());
    let path = directory.store();
    let errors = [
        directory.open().unwrap_err(),
        verify(&path).unwrap_err(),
        repair(&path, &directory.copy()).unwrap_err(),
        stats(&path).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("has format version {version}")), "{text}");
        assert!(text.contains("reads only format version 3"), "{text}");
        assert!(text.contains("open it with the version of Oncebox that wrote it"), "{text}");
    }
    assert_eq!(files(&path), before, "nothing has changed");
    assert!(!directory.copy().exists());
}

#[test]
fn a_store_of_another_version_is_unsupported() -> TestResult {
    for version in [1, 2, 4, 255] {
        let directory = filled()?;
        set_version(&directory, "store", version, STORE_CHECKED);
        is_unsupported(&directory, version);
        let mixed = directory.open().unwrap_err().to_string();
        assert!(mixed.contains("the segments beside it have this version"), "{mixed}");
        // The format after the version byte may be anything.
        directory.change("store", |bytes| bytes[8..].fill(9));
        is_unsupported(&directory, version);
        // Without the file `store`, the segments show the version.
        std::fs::remove_file(directory.path("store"))?;
        for name in directory.segments() {
            set_version(&directory, &name, version, HEADER_CHECKED);
        }
        is_unsupported(&directory, version);
        let whole = directory.open().unwrap_err().to_string();
        assert!(!whole.contains("beside it"), "{whole}");
        for name in directory.segments() {
            std::fs::remove_file(directory.path(&name))?;
        }
    }
    Ok(())
}

/// A store that was never opened completely has no segments.
#[test]
fn a_new_store_of_another_version_is_unsupported() -> TestResult {
    let directory = Directory::new();
    std::fs::create_dir(directory.store())?;
    std::fs::write(directory.path("store"), b"ONCEBOX\x04 and more")?;
    is_unsupported(&directory, 4);
    Ok(())
}

/// Only the version byte was changed, as the checksum shows.
#[test]
fn a_damaged_version_is_damage() -> TestResult {
    let directory = filled()?;
    for version in [0, 2, 7] {
        directory.change("store", |bytes| bytes[7] = version);
        assert_eq!(directory.open().unwrap_err().kind(), ErrorKind::Corrupt);
        let Verified::Damaged(damage) = verify(&directory.store())? else { panic!("it is damaged") };
        assert_eq!(damage.findings, [VerifyFinding::Identity]);
    }
    repair(&directory.store(), &directory.copy())?;
    drop(directory.open()?);
    Ok(())
}
