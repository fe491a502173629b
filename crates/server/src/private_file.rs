//! Files with secrets, which only their owner may access.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bits of the file mode that let others than the owner access it.
const OTHERS: u32 = 0o077;

/// Others can access a file with secrets.
#[derive(Debug, thiserror::Error)]
#[error("other users can access it (mode {mode:03o}): run `chmod 600 {}`", path.display())]
pub(crate) struct NotPrivate {
    path: PathBuf,
    mode: u32,
}

/// Whether only the owner of a file can access it.
pub(crate) fn check(file: &File, path: &Path) -> io::Result<Result<(), NotPrivate>> {
    let mode = file.metadata()?.permissions().mode() & 0o777;
    let is_private = mode & OTHERS == 0;
    Ok(if is_private { Ok(()) } else { Err(NotPrivate { path: path.to_owned(), mode }) })
}
