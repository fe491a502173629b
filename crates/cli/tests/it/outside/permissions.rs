//! File permissions: only the owner can read payloads on disk, for every umask and for existing directories.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::mailbox_client::texts;
use super::ownership::wait_for_exit;
use super::rig::{Server, SharedStorage, Store, new_storage};
use crate::rig::{CommandOutput, oncebox, oncebox_under, run};
use crate::store::damage;

const UMASKS: [&str; 4] = ["000", "022", "277", "777"];

/// A wrapper that sets the umask and then executes the command that follows.
fn under(umask: &str) -> [String; 3] {
    ["sh".to_owned(), "-c".to_owned(), format!(r#"umask {umask}; exec "$0" "$@""#)]
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("the file exists").permissions().mode() & 0o7777
}

fn change(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the test owns it");
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Asserts that only the owner can access a directory and its files.
#[track_caller]
fn assert_private(directory: &Path, least: usize) {
    assert_eq!(format!("{:o}", mode(directory)), "700", "{}", directory.display());
    let files = files(directory);
    assert!(files.len() >= least, "{files:?}");
    for file in files {
        assert_eq!(format!("{:o}", mode(&file)), "600", "{}", file.display());
    }
}

/// Sets the permissions that an older version used.
fn loosen(directory: &Path) {
    change(directory, 0o755);
    for file in files(directory) {
        change(&file, 0o644);
    }
}

fn data(storage: &SharedStorage) -> PathBuf {
    storage.path().join("data")
}

fn serve(storage: &SharedStorage, umask: &str) -> Server {
    let (wrapper, url) = (under(umask), storage.url(Store::Embedded));
    let wrapper: Vec<_> = wrapper.iter().map(String::as_str).collect();
    Server::start_under(&wrapper, storage.clone(), &["--store", &url], &[])
}

#[test]
fn a_new_store_is_private_for_every_umask() {
    for umask in UMASKS {
        println!("umask {umask}");
        let storage = new_storage();
        let server = serve(&storage, umask);
        server.sent("t", "secret");
        // Enough that segments are also created while the server runs.
        let payload = "x".repeat(700_000);
        (0..25).for_each(|number| drop(server.send("t", &number.to_string(), &payload).ok()));
        assert_private(&data(&storage), 4);
        let storage = server.stop();
        assert_private(&data(&storage), 4);
        let server = serve(&storage, umask);
        assert_private(&data(&storage), 4);
        drop(server);
    }
}

#[test]
fn an_existing_store_becomes_private_when_it_is_opened() {
    const LINE: &str = "access restricted to its owner";
    let server = Server::start(Store::Embedded, &[]);
    server.sent("t", "secret");
    let storage = server.stop();
    for (directory, file) in [(0o755, 0o644), (0o700, 0o640), (0o750, 0o600), (0o711, 0o604)] {
        change(&data(&storage), directory);
        for path in files(&data(&storage)) {
            change(&path, file);
        }
        let server = Server::start_in(storage.clone(), Store::Embedded, &[]);
        assert_private(&data(&storage), 3);
        server.wait_for_line(LINE);
        assert_eq!(server.log().matches(LINE).count(), 1, "{}", server.log());
        server.stop();
    }
    let server = Server::start_in(storage, Store::Embedded, &[]);
    assert!(!server.log().contains(LINE), "the permissions were already private: {}", server.log());
    assert_eq!(texts(&server.recv("t"), "idem_key"), ["secret"]);
}

/// Tries to serve a directory; returns the exit code and stderr.
fn try_to_serve(directory: &Path) -> (Option<i32>, String) {
    let store = format!("embedded:{}", directory.display());
    let mut command = oncebox(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    command.args(["--set", "admin.listen=127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    wait_for_exit(command.spawn().expect("the binary runs"))
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let server = Server::start(Store::Embedded, &[]);
    server.sent("t", "1");
    let storage = server.stop();
    let stored = data(&storage);
    let empty = storage.path().join("empty");
    fs::create_dir(&empty).expect("a directory");
    for directory in [&stored, &empty] {
        let before = files(directory);
        for open in [0o770, 0o707, 0o777, 0o1777, 0o2775] {
            change(directory, open);
            let (code, stderr) = try_to_serve(directory);
            assert!(code.is_some_and(|code| code > 0), "{code:?} {stderr}");
            let advice = format!("`chmod go-w {}`", directory.display());
            assert!(stderr.contains(&advice) && stderr.contains("users other than the owner"), "{stderr}");
            assert_eq!((mode(directory), files(directory)), (open, before.clone()), "nothing was changed");
        }
        change(directory, 0o2755);
    }
    let server = Server::start_in(storage, Store::Embedded, &[]);
    assert_eq!(texts(&server.recv("t"), "idem_key"), ["1"]);
}

#[test]
fn a_store_inside_a_shared_directory_is_private() {
    let storage = new_storage();
    let shared = storage.path().join("shared");
    fs::create_dir(&shared).expect("a directory");
    change(&shared, 0o2775);
    let inside = shared.join("a/b");
    let server = Server::start_with(storage, &["--store", &format!("embedded:{}", inside.display())], &[]);
    server.sent("t", "1");
    assert_private(&inside, 3);
    assert_eq!(mode(&shared), 0o2775, "the shared directory is not changed");
}

#[test]
fn a_repaired_store_and_its_copy_are_private() {
    let server = Server::start(Store::Embedded, &[]);
    (0..5).for_each(|number| drop(server.sent("t", &number.to_string())));
    let storage = server.kill();
    let directory = data(&storage);
    damage(&directory);
    loosen(&directory);
    change(&directory, 0o777);
    let arguments = ["store", "repair", &directory.display().to_string()];
    let refused = run(&arguments);
    assert!(refused.stderr.contains("`chmod go-w"), "{refused:?}");
    change(&directory, 0o755);
    let wrapper = under("000");
    let wrapper: Vec<_> = wrapper.iter().map(String::as_str).collect();
    let ran = CommandOutput::from(oncebox_under(&wrapper, &arguments).output().expect("the binary runs"));
    let copy = storage.path().join("data-before-repair");
    assert!(copy.is_dir(), "{ran:?}");
    assert_private(&copy, 3);
    assert_private(&directory, 3);
}

/// Relative to the working directory, and several levels deep.
#[test]
fn a_relative_directory_is_created() {
    for relative in ["data", "./data", "a/b/c", "./a/b/../c"] {
        let storage = new_storage();
        let server = Server::start_with(storage.clone(), &["--store", &format!("embedded:{relative}")], &[]);
        server.sent("t", "1");
        assert_private(&storage.path().join("work").join(relative), 3);
    }
}

/// A file of another service.
#[track_caller]
fn put(path: &Path, text: &str) {
    fs::write(path, text).expect("the file is written");
    change(path, 0o644);
}

/// An operator who configures `/var/lib` instead of `/var/lib/oncebox` must not lock other services out of it.
/// Holds: RULE-13.
#[test]
fn a_directory_of_other_files_is_refused_and_left_alone() {
    let storage = new_storage();
    for (number, name) in
        ["index.html", "store", "subdirectory/", "store/", "1.seg.bak"].into_iter().enumerate()
    {
        let directory = storage.path().join(format!("other-{number}"));
        fs::create_dir(&directory).expect("a directory");
        let file = directory.join(name.trim_end_matches('/'));
        if name.ends_with('/') {
            fs::create_dir(&file).expect("a directory");
            change(&file, 0o755);
        } else {
            put(&file, "not ours");
        }
        put(&directory.join(".profile"), "not ours");
        change(&directory, 0o755);
        let (before, kept) = (files(&directory), mode(&file));
        let (code, stderr) = try_to_serve(&directory);
        assert!(code.is_some_and(|code| code > 0), "{code:?} {stderr}");
        for says in [
            &directory.display().to_string(),
            "neither empty nor an embedded store",
            "new or empty directory",
        ] {
            assert!(stderr.contains(says), "{name}: {stderr}");
        }
        assert_eq!((mode(&directory), mode(&file)), (0o755, kept), "{name}");
        assert_eq!(mode(&directory.join(".profile")), 0o644, "{name}");
        assert_eq!(files(&directory), before, "{name}");
        if !name.ends_with('/') {
            assert_eq!(fs::read_to_string(&file).expect("a file"), "not ours", "{name}");
        }
    }
}

/// A volume may contain other files, created before the store or after it.
/// Holds: RULE-13.
#[test]
fn other_files_in_a_store_directory_are_left_alone() {
    let storage = new_storage();
    let directory = data(&storage);
    fs::create_dir(&directory).expect("a directory");
    let lost = directory.join("lost+found");
    fs::create_dir(&lost).expect("a directory");
    change(&lost, 0o755);
    put(&directory.join(".keep"), "");
    change(&directory, 0o755);
    let server = Server::start_in(storage.clone(), Store::Embedded, &[]);
    server.sent("t", "1");
    server.stop();
    let other_files = ["README", "notes.seg", "store.bak", ".keep"].map(|name| directory.join(name));
    for path in &other_files {
        put(path, "not ours");
    }
    change(&directory, 0o755);
    change(&directory.join("store"), 0o644);
    let server = Server::start_in(storage, Store::Embedded, &[]);
    server.wait_for_line("access restricted to its owner");
    assert_eq!((mode(&directory), mode(&directory.join("store")), mode(&lost)), (0o700, 0o600, 0o755));
    for path in &other_files {
        assert_eq!(mode(path), 0o644, "{}", path.display());
        assert_eq!(fs::read_to_string(path).expect("a file"), "not ours");
    }
    assert_eq!(texts(&server.recv("t"), "idem_key"), ["1"]);
}

/// Holds: RULE-13.
#[test]
fn a_store_that_another_process_has_open_is_not_changed() {
    let server = Server::start(Store::Embedded, &[]);
    server.sent("t", "1");
    let directory = server.path().join("data");
    loosen(&directory);
    // The server may create further files at any time.
    let loose: Vec<_> = files(&directory).into_iter().filter(|file| mode(file) == 0o644).collect();
    assert!(!loose.is_empty(), "some files are readable by others");
    let (code, stderr) = try_to_serve(&directory);
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("is in use by process"), "{stderr}");
    assert_eq!(mode(&directory), 0o755);
    for file in loose.iter().filter(|file| file.exists()) {
        assert_eq!(mode(file), 0o644, "{}", file.display());
    }
}
