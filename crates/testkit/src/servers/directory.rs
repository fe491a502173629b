//! Directories for servers, next to the test program; removed when the server or the test process ends.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// `nobody`: servers refuse to run as root.
const NOBODY: u32 = 65_534;

/// Waits until its input ends, which happens when this process ends in any way, and removes the directory. Processes
/// that are just being killed may still create files in it, so the removal is retried.
const GUARD: &str =
    r#"trap "" HUP INT TERM; cat; for pause in 0.1 0.3 1 3 0; do rm -rf "$1" && exit; sleep $pause; done"#;

/// A directory that belongs to the user of the servers.
pub(super) struct ServerDirectory {
    path: PathBuf,
    guard: Child,
}

impl ServerDirectory {
    /// Creates a new, empty directory.
    pub(super) fn make(name: &str) -> Result<Self, String> {
        static DIRECTORIES: AtomicU32 = AtomicU32::new(0);
        let base = base()?;
        let path = loop {
            let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{name}-{}-{number}", std::process::id()));
            match make_owned(&path) {
                Ok(()) => break path,
                // Process ids are reused, and containers that share a disk may have the same ones.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("cannot create {}: {error}", path.display())),
            }
        };
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&path).stdin(Stdio::piped()).process_group(0);
        guard.stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.spawn().map_err(|error| format!("sh does not start: {error}"))?;
        Ok(Self { path, guard })
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that the servers can read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.join(name);
        let written = fs::write(&path, text).and_then(|()| give(&path));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for ServerDirectory {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// The parent of all directories of this user and build. Build directories are on a real disk, temporary directories
/// often are not; but an unprivileged server must be able to reach it.
pub(super) fn base() -> Result<PathBuf, String> {
    let name = format!("oncebox-servers-{}", own_user());
    let program = std::env::current_exe().map(|program| program.with_file_name(&name)).ok();
    let candidates = [program, Some(std::env::temp_dir().join(&name))];
    let mut errors = String::new();
    for candidate in candidates.into_iter().flatten() {
        match prepare(&candidate) {
            Ok(path) => return Ok(path),
            Err(error) => errors = format!("{errors}; {}: {error}", candidate.display()),
        }
    }
    Err(format!("no directory for servers{errors}"))
}

fn prepare(path: &Path) -> io::Result<PathBuf> {
    let parent = path.parent().unwrap_or(path).canonicalize()?;
    let passable = |directory: &Path| fs::metadata(directory).is_ok_and(|data| data.mode() & 0o001 != 0);
    if server_user().is_some() && !parent.ancestors().all(passable) {
        return Err(io::Error::other("the servers' user has no access"));
    }
    let path = parent.join(path.file_name().unwrap_or_default());
    match fs::create_dir(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&path)?;
    if !found.is_dir() || found.uid() != own_user() {
        return Err(io::Error::other("it belongs to another user"));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Creates a directory that belongs to the user of the servers.
pub(super) fn make_owned(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    give(path)
}

fn give(path: &Path) -> io::Result<()> {
    match server_user() {
        Some(user) => chown(path, Some(user), Some(user)),
        None => Ok(()),
    }
}

/// The user of the servers; none if that is the current user.
pub(super) fn server_user() -> Option<u32> {
    (own_user() == 0).then_some(NOBODY)
}

fn own_user() -> u32 {
    fs::metadata("/proc/self").map_or(NOBODY, |found| found.uid())
}
