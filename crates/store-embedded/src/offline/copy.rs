//! Copies a store's directory, durably, and compares the copy with the original.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use oncebox_core::{Error, Invalid};

use crate::error::failed;
use crate::file_names;
use crate::permissions;

/// Copies all files of the store in `from` to `to`, which must not exist. Other files in `from` are not copied, because
/// repair does not change them. After a failure the partial copy is removed.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real =
        |path: &Path| path.canonicalize().map_err(|error| failed("resolving the path of the copy", error));
    if real(parent)?.starts_with(real(from)?) {
        return Err(Invalid::new("copy", "is inside the store: use a path outside of it").into());
    }
    match permissions::create_directory(to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Invalid::new("copy", "exists already: use a path that does not exist").into());
        }
        Err(error) => return Err(failed("creating the directory of the copy", error)),
    }
    let copied = fill(from, to).and_then(|()| File::open(parent)?.sync_all());
    copied.map_err(|error| {
        let _ = std::fs::remove_dir_all(to);
        failed("copying the store before its repair", error)
    })
}

fn fill(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let is_own = entry.file_name().to_str().is_some_and(file_names::is_own);
        if !is_own || !entry.file_type()?.is_file() {
            continue;
        }
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        std::fs::copy(&source, &target)?;
        let copied = File::open(&target)?;
        // `fs::copy` copied the mode of the original.
        permissions::set_file_mode(&copied)?;
        copied.sync_all()?;
        if hash(&source)? != hash(&target)? {
            return Err(io::Error::other("the copy differs from the original"));
        }
    }
    File::open(to)?.sync_all()
}

fn hash(path: &Path) -> io::Result<blake3::Hash> {
    let (mut file, mut hasher) = (File::open(path)?, blake3::Hasher::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            count => hasher.update(&buffer[..count]),
        };
    }
}
