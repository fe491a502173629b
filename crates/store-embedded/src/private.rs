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
