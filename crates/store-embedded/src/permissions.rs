//! File permissions: only the owner may enter a store's directory and read its files, because payloads are private.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use oncebox_core::{Error, ErrorKind};

use crate::error::failed;
use crate::file_names;

/// Mode of directories: only the owner can enter them.
const DIRECTORY_MODE: u32 = 0o700;
/// Mode of files: only the owner can read and write them.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Write permission for group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Permissions of the owner, and the set-user-id, set-group-id and sticky bits.
const OWNER_MODE_MASK: u32 = 0o7700;

/// Creates a directory that only its owner can enter, whatever the umask is.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
}

/// Creates a directory that only its owner can enter, and its missing parents. Each name is durable before the next
/// directory is created.
pub(crate) fn create_path(path: &Path, sync: &mut SyncDirectory<'_>) -> io::Result<()> {
    let is_missing = |level: &&Path| !level.as_os_str().is_empty() && !level.exists();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    // A failed open may have created the last existing level, and ended before its name was durable.
    if let Some(existing) = path.ancestors().nth(missing.len()) {
        sync_existing(parent(existing), sync)?;
    }
    for level in missing.into_iter().rev() {
        let created = if level == path { create_directory(level) } else { fs::create_dir(level) };
        match created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && level.is_dir() => {}
            created => created?,
        }
        sync(parent(level))?;
    }
    Ok(())
}

/// Syncs a directory that existed before. If this process lacks permission there, it has created nothing in it: nothing
/// to sync.
fn sync_existing(directory: &Path, sync: &mut SyncDirectory<'_>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    match sync(directory) {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem) => Ok(()),
        synced => synced,
    }
}

/// The directory that contains the name `path`; the root contains itself.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
}

/// Makes the names in a directory survive a power failure.
pub(crate) type SyncDirectory<'a> = dyn FnMut(&Path) -> io::Result<()> + 'a;

/// Writes a file that only its owner can read; replaces the content of an existing one.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    set_file_mode(&file)?;
    io::Write::write_all(&mut &file, text.as_bytes())
}

/// Sets the mode of a file that was just created: the umask may have removed permissions of the owner.
pub(crate) fn set_file_mode(file: &File) -> io::Result<()> {
    if file.metadata()?.mode() & 0o777 == FILE_MODE {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(FILE_MODE))
}

/// Rejects a directory that users other than its owner can write to: its content may not be the owner's.
pub(crate) fn reject_writable_by_others(path: &Path) -> Result<(), Error> {
    let mode = mode(path).map_err(|error| failed(&format!("opening {}", path.display()), error))?;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let path = path.display();
    let text = format!(
        "users other than the owner can write to {path} (mode {mode:04o}): check its contents, then run \
         `chmod go-w {path}`, or use a subdirectory, which is created for its owner only"
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

/// Removes all access of other users to the store's directory and to the store's files in it. Returns whether there was
/// any. Other files stay as they are: they may belong to another program.
pub(crate) fn restrict(path: &Path) -> io::Result<bool> {
    let mut restricted = clear_mode_of_others(path, mode(path)?)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(file_names::is_own) {
            continue;
        }
        let found = entry.metadata()?;
        restricted |= found.is_file() && clear_mode_of_others(&entry.path(), found.mode() & 0o7777)?;
    }
    Ok(restricted)
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.mode() & 0o7777)
}

fn clear_mode_of_others(path: &Path, mode: u32) -> io::Result<bool> {
    if mode & !OWNER_MODE_MASK == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, Permissions::from_mode(mode & OWNER_MODE_MASK))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{create_path, mode, parent};

    /// A temporary directory, removed at the end.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("oncebox-private-{}-{name}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The directories that are synced, in order, each with how many of the four levels below the root exist at that
    /// time.
    fn syncs(root: &Path, path: &str) -> Vec<(String, usize)> {
        let levels = ["a", "a/b", "a/b/c", "a/b/c/d"];
        let mut syncs = Vec::new();
        let mut sync = |directory: &Path| {
            let name = directory.strip_prefix(root).map_or("above", |inside| inside.to_str().unwrap());
            syncs.push((name.to_owned(), levels.iter().filter(|level| root.join(level).exists()).count()));
            Ok(())
        };
        create_path(&root.join(path), &mut sync).unwrap();
        assert!(root.join(path).is_dir());
        syncs
    }

    fn expected(syncs: &[(&str, usize)]) -> Vec<(String, usize)> {
        syncs.iter().map(|(name, levels)| ((*name).to_owned(), *levels)).collect()
    }

    /// A power failure after the first confirmed writes must not lose the directory, however many of its levels are
    /// new. The process that created the last existing level may have ended before that name was durable.
    #[test]
    fn every_new_level_is_durable_before_the_next_is_created() {
        let root = Root::new("levels");
        assert_eq!(syncs(&root.0, "a/b/c"), expected(&[("above", 0), ("", 1), ("a", 2), ("a/b", 3)]));
        assert_eq!(mode(&root.0.join("a/b/c")).unwrap(), 0o700);
        assert_eq!(syncs(&root.0, "a/b/c"), expected(&[("a/b", 3)]));
        assert_eq!(syncs(&root.0, "a/b/c/d"), expected(&[("a/b", 3), ("a/b/c", 4)]));
    }

    #[test]
    fn every_path_has_a_parent_directory() {
        for (path, expected) in [("/", "/"), ("/a", "/"), ("/a/b", "/a"), ("a/b", "a"), ("a", "."), ("", ".")]
        {
            assert_eq!(parent(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn a_directory_whose_parent_cannot_be_synced_is_not_used() {
        let root = Root::new("failing");
        let mut failing = |_: &Path| Err(io::Error::other("no"));
        assert!(create_path(&root.0.join("a/b"), &mut failing).is_err());
        assert!(!root.0.join("a/b").exists());
        // A path that existed before, in a directory that this process may not read, was created by another process.
        let mut denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        create_path(&root.0, &mut denied).unwrap();
        assert!(create_path(&root.0.join("new"), &mut denied).is_err());
    }
}
