//! Payloads on disk: only their owner reads them, whatever the umask says and whoever made the directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::ownership::ended;
use super::rig::{Home, Server, Store, home};
use super::talk::texts;
use crate::rig::{Ran, oncebox, oncebox_under, run};
use crate::store::damage;

const UMASKS: [&str; 4] = ["000", "022", "277", "777"];

/// Runs what follows under a umask, and becomes it.
fn under(umask: &str) -> [String; 3] {
    ["sh".to_owned(), "-c".to_owned(), format!(r#"umask {umask}; exec "$0" "$@""#)]
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn change(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Only its owner can do anything with a directory and its files.
#[track_caller]
fn is_private(directory: &Path, least: usize) {
    assert_eq!(format!("{:o}", mode(directory)), "700", "{}", directory.display());
    let files = files(directory);
    assert!(files.len() >= least, "{files:?}");
    for file in files {
        assert_eq!(format!("{:o}", mode(&file)), "600", "{}", file.display());
    }
}

/// As an older version made it.
fn loosen(directory: &Path) {
    change(directory, 0o755);
    for file in files(directory) {
        change(&file, 0o644);
    }
}

fn data(home: &Home) -> PathBuf {
    home.path().join("data")
}

fn serve(home: &Home, umask: &str) -> Server {
    let (words, url) = (under(umask), home.url(Store::Embedded));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Server::start_under(&words, home.clone(), &["--store", &url], &[])
}

#[test]
fn a_new_store_is_its_owners_alone_whatever_the_umask() {
    for umask in UMASKS {
        println!("umask {umask}");
        let home = home();
        let server = serve(&home, umask);
        server.sent("t", "secret");
        // Segments are made while it runs, too.
        let payload = "x".repeat(700_000);
        (0..25).for_each(|number| drop(server.send("t", &number.to_string(), &payload).ok()));
        is_private(&data(&home), 4);
        let home = server.stop();
        is_private(&data(&home), 4);
        let server = serve(&home, umask);
        is_private(&data(&home), 4);
        drop(server);
    }
}

#[test]
fn a_store_that_others_could_read_is_closed_to_them_when_it_is_opened() {
    const LINE: &str = "now only its owner can";
    let server = Server::start(Store::Embedded, &[]);
    server.sent("t", "secret");
    let home = server.stop();
    for (directory, file) in [(0o755, 0o644), (0o700, 0o640), (0o750, 0o600), (0o711, 0o604)] {
        change(&data(&home), directory);
        for path in files(&data(&home)) {
            change(&path, file);
        }
        let server = Server::start_in(home.clone(), Store::Embedded, &[]);
        is_private(&data(&home), 3);
        server.wait_for_line(LINE);
        assert_eq!(server.log().matches(LINE).count(), 1, "{}", server.log());
        server.stop();
    }
    let server = Server::start_in(home, Store::Embedded, &[]);
    assert!(!server.log().contains(LINE), "nothing was to be done: {}", server.log());
    assert_eq!(texts(&server.recv("t"), "idem_key"), ["secret"]);
}

/// Tries to serve a directory; gives how that ended, and what was said.
fn try_to_serve(directory: &Path) -> (Option<i32>, String) {
    let store = format!("embedded:{}", directory.display());
    let mut command = oncebox(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    command.args(["--set", "admin.listen=127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    ended(command.spawn().expect("the binary runs"))
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    let server = Server::start(Store::Embedded, &[]);
    server.sent("t", "1");
    let home = server.stop();
    let stored = data(&home);
    let empty = home.path().join("empty");
    fs::create_dir(&empty).expect("a directory");
    for directory in [&stored, &empty] {
        let before = files(directory);
        for open in [0o770, 0o707, 0o777, 0o1777, 0o2775] {
            change(directory, open);
            let (code, stderr) = try_to_serve(directory);
            assert!(code.is_some_and(|code| code > 0), "{code:?} {stderr}");
            let advice = format!("`chmod go-w {}`", directory.display());
            assert!(stderr.contains(&advice) && stderr.contains("others"), "{stderr}");
            assert_eq!((mode(directory), files(directory)), (open, before.clone()), "nothing has changed");
        }
        change(directory, 0o2755);
    }
    let server = Server::start_in(home, Store::Embedded, &[]);
    assert_eq!(texts(&server.recv("t"), "idem_key"), ["1"]);
}

#[test]
fn a_directory_inside_of_a_shared_one_is_its_owners_alone() {
    let home = home();
    let shared = home.path().join("shared");
    fs::create_dir(&shared).expect("a directory");
    change(&shared, 0o2775);
    let inside = shared.join("a/b");
    let server = Server::start_with(home, &["--store", &format!("embedded:{}", inside.display())], &[]);
    server.sent("t", "1");
    is_private(&inside, 3);
    assert_eq!(mode(&shared), 0o2775, "it is not ours");
}

#[test]
fn a_repair_leaves_nothing_for_others() {
    let server = Server::start(Store::Embedded, &[]);
    (0..5).for_each(|number| drop(server.sent("t", &number.to_string())));
    let home = server.kill();
    let directory = data(&home);
    damage(&directory);
    loosen(&directory);
    change(&directory, 0o777);
    let arguments = ["store", "repair", &directory.display().to_string()];
    let refused = run(&arguments);
    assert!(refused.stderr.contains("`chmod go-w"), "{refused:?}");
    change(&directory, 0o755);
    let words = under("000");
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let ran = Ran::from(oncebox_under(&words, &arguments).output().expect("the binary runs"));
    let copy = home.path().join("data-before-repair");
    assert!(copy.is_dir(), "{ran:?}");
    is_private(&copy, 3);
    is_private(&directory, 3);
}

/// Relative to where the process runs, and several levels deep.
#[test]
fn a_relative_directory_is_made() {
    for relative in ["data", "./data", "a/b/c", "./a/b/../c"] {
        let home = home();
        let server = Server::start_with(home.clone(), &["--store", &format!("embedded:{relative}")], &[]);
        server.sent("t", "1");
        is_private(&home.path().join("work").join(relative), 3);
    }
}

/// A file of another service.
#[track_caller]
fn put(path: &Path, text: &str) {
    fs::write(path, text).expect("it is written");
    change(path, 0o644);
}

/// An operator who names `/var/lib` and means `/var/lib/oncebox` must not lock other services out of it.
/// Holds: RULE-13.
#[test]
fn a_directory_of_other_files_is_refused_and_left_alone() {
    let home = home();
    for (number, name) in
        ["index.html", "store", "subdirectory/", "store/", "1.seg.bak"].into_iter().enumerate()
    {
        let directory = home.path().join(format!("other-{number}"));
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
            "new or an empty directory",
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

/// A volume may come with files of its own, before the store is made in it or after.
/// Holds: RULE-13.
#[test]
fn files_beside_a_store_are_left_alone() {
    let home = home();
    let directory = data(&home);
    fs::create_dir(&directory).expect("a directory");
    let lost = directory.join("lost+found");
    fs::create_dir(&lost).expect("a directory");
    change(&lost, 0o755);
    put(&directory.join(".keep"), "");
    change(&directory, 0o755);
    let server = Server::start_in(home.clone(), Store::Embedded, &[]);
    server.sent("t", "1");
    server.stop();
    let beside = ["README", "notes.seg", "store.bak", ".keep"].map(|name| directory.join(name));
    for path in &beside {
        put(path, "not ours");
    }
    change(&directory, 0o755);
    change(&directory.join("store"), 0o644);
    let server = Server::start_in(home, Store::Embedded, &[]);
    server.wait_for_line("now only its owner can");
    assert_eq!((mode(&directory), mode(&directory.join("store")), mode(&lost)), (0o700, 0o600, 0o755));
    for path in &beside {
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
    // The server that has it open may make further files at any time.
    let loose: Vec<_> = files(&directory).into_iter().filter(|file| mode(file) == 0o644).collect();
    assert!(!loose.is_empty(), "some are open to others");
    let (code, stderr) = try_to_serve(&directory);
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("is in use by process"), "{stderr}");
    assert_eq!(mode(&directory), 0o755);
    for file in loose.iter().filter(|file| file.exists()) {
        assert_eq!(mode(file), 0o644, "{}", file.display());
    }
}
