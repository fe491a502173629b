//! Payloads are nobody's business but their owner's: who may enter the directory of a store, and read the files in it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use oncebox_core::{Error, Kind};

use crate::identity;
use crate::recovery::failed;

/// Of directories: the owner alone enters them.
const DIRECTORY_MODE: u32 = 0o700;
/// Of files: the owner alone reads and writes them.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Writing, for the group and for all.
const OTHERS_WRITE: u32 = 0o022;
/// All that an owner can have, and what is not about anybody.
const OWNERS: u32 = 0o7700;

/// Makes a directory that only its owner enters, whatever the umask is.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
}

/// Makes a directory that only its owner enters, and those above it, as far as they are missing. Each name is durable before the
/// next directory is made.
pub(crate) fn make_path(path: &Path, sync: &mut Sync<'_>) -> io::Result<()> {
    let is_missing = |level: &&Path| !level.as_os_str().is_empty() && !level.exists();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    // An opening that failed may have made the last level that is there, and ended before its name was durable.
    if let Some(there) = path.ancestors().nth(missing.len()) {
        sync_made_before(parent(there), sync)?;
    }
    for level in missing.into_iter().rev() {
        let made = if level == path { make_directory(level) } else { fs::create_dir(level) };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && level.is_dir() => {}
            made => made?,
        }
        sync(parent(level))?;
    }
    Ok(())
}

/// Where this process can make nothing, it has made nothing: there is nothing to sync.
fn sync_made_before(directory: &Path, sync: &mut Sync<'_>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    match sync(directory) {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem) => Ok(()),
        synced => synced,
    }
}

/// The directory that contains the name of another; the root contains itself.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
}

/// Makes the names in a directory survive a power cut.
pub(crate) type Sync<'a> = dyn FnMut(&Path) -> io::Result<()> + 'a;

/// Makes a file that only its owner reads, or empties the one that is there.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    own(&file)?;
    io::Write::write_all(&mut &file, text.as_bytes())
}

/// Gives a file that was just made the rights that it should have: a umask may have taken some of the owner's.
pub(crate) fn own(file: &File) -> io::Result<()> {
    if file.metadata()?.mode() & 0o777 == FILE_MODE {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(FILE_MODE))
}

/// Refuses a directory that others than its owner can write: what is found there may be of their making.
pub(crate) fn refuse_shared(path: &Path) -> Result<(), Error> {
    let mode = mode(path).map_err(|error| failed(&format!("opening {}", path.display()), error))?;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let path = path.display();
    let text = format!(
        "others than its owner can write {path} (mode {mode:04o}): check what is in it, then run `chmod go-w {path}`, \
         or name a directory inside of it, which is made for its owner alone"
    );
    Err(Error::new(Kind::Invalid, text))
}

/// Takes from others what they can do with the directory of a store and the store's files in it. Answers whether there was
/// anything. Other files stay as they are: they may be of another program.
pub(crate) fn tighten(path: &Path) -> io::Result<bool> {
    let mut tightened = take_from_others(path, mode(path)?)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(identity::is_own) {
            continue;
        }
        let found = entry.metadata()?;
        tightened |= found.is_file() && take_from_others(&entry.path(), found.mode() & 0o7777)?;
    }
    Ok(tightened)
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.mode() & 0o7777)
}

fn take_from_others(path: &Path, mode: u32) -> io::Result<bool> {
    if mode & !OWNERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, Permissions::from_mode(mode & OWNERS))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{make_path, mode, parent};

    /// A directory of its own, removed at the end.
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

    /// Which directories are synced, in order, and which of the four levels below the root exist by then.
    fn syncs(root: &Path, path: &str) -> Vec<(String, usize)> {
        let levels = ["a", "a/b", "a/b/c", "a/b/c/d"];
        let mut syncs = Vec::new();
        let mut sync = |directory: &Path| {
            let name = directory.strip_prefix(root).map_or("above", |inside| inside.to_str().unwrap());
            syncs.push((name.to_owned(), levels.iter().filter(|level| root.join(level).exists()).count()));
            Ok(())
        };
        make_path(&root.join(path), &mut sync).unwrap();
        assert!(root.join(path).is_dir());
        syncs
    }

    fn expected(syncs: &[(&str, usize)]) -> Vec<(String, usize)> {
        syncs.iter().map(|(name, levels)| ((*name).to_owned(), *levels)).collect()
    }

    /// A power cut after the first answers must not take the directory away, however many levels of it are new.
    /// The process that made the last level may have ended before that name was durable.
    #[test]
    fn every_new_level_is_durable_before_the_next_is_made() {
        let root = Root::new("levels");
        assert_eq!(syncs(&root.0, "a/b/c"), expected(&[("above", 0), ("", 1), ("a", 2), ("a/b", 3)]));
        assert_eq!(mode(&root.0.join("a/b/c")).unwrap(), 0o700);
        assert_eq!(syncs(&root.0, "a/b/c"), expected(&[("a/b", 3)]));
        assert_eq!(syncs(&root.0, "a/b/c/d"), expected(&[("a/b", 3), ("a/b/c", 4)]));
    }

    #[test]
    fn every_path_has_a_directory_with_its_name() {
        for (path, expected) in [("/", "/"), ("/a", "/"), ("/a/b", "/a"), ("a/b", "a"), ("a", "."), ("", ".")]
        {
            assert_eq!(parent(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn a_directory_in_one_that_cannot_be_synced_is_not_used() {
        let root = Root::new("failing");
        let mut failing = |_: &Path| Err(io::Error::other("no"));
        assert!(make_path(&root.0.join("a/b"), &mut failing).is_err());
        assert!(!root.0.join("a/b").exists());
        // What was there before, in a directory that this process may not read, was made by another.
        let mut denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        make_path(&root.0, &mut denied).unwrap();
        assert!(make_path(&root.0.join("new"), &mut denied).is_err());
    }
}
