//! Files with a token. A token is a secret, so it is never an argument, which other users could see.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Longer files contain no token.
const BYTES_MAX: u64 = 64 * 1024;

/// Reads a token.
pub(crate) fn read(path: &Path) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        CliError::failed(format!("cannot read the token file {}: {error}", path.display()))
    };
    let file = fs::File::open(path).map_err(failed)?;
    let token = read_from(file).map_err(failed)?;
    if token.is_empty() {
        return Err(CliError::failed(format!("the token file {} is empty", path.display())));
    }
    Ok(token)
}

/// Reads a token from standard input.
pub(crate) fn from_stdin() -> Result<String, CliError> {
    let token = read_from(io::stdin().lock());
    token.map_err(|error| CliError::failed(format!("cannot read a token from standard input: {error}")))
}

fn read_from(file: impl Read) -> io::Result<String> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

/// The token that `oncebox login` saved for a server.
pub(crate) fn saved(server: &str) -> Result<Option<String>, CliError> {
    match path_of(server) {
        Some(path) if path.exists() => read(&path).map(Some),
        _ => Ok(None),
    }
}

/// Where the token for a server is saved; none if no home directory is known.
pub(crate) fn path_of(server: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let directory = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let escape =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("_{byte:02x}") };
    let name: String = server.bytes().map(escape).collect();
    Some(directory.join("oncebox/tokens").join(name))
}

/// Writes a secret into a file that only its owner can read. An existing file is replaced as a whole, and keeps its owner:
/// root may change a file of the server.
pub(crate) fn write_secret(path: &Path, secret: &str) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(secret.as_bytes())?;
    #[cfg(unix)]
    keep_owner(&file, path)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(directory)?.sync_all()
}

#[cfg(unix)]
fn keep_owner(file: &tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};

    let Ok(before) = fs::metadata(path) else { return Ok(()) };
    let now = file.as_file().metadata()?;
    if (before.uid(), before.gid()) == (now.uid(), now.gid()) {
        return Ok(());
    }
    fchown(file.as_file(), Some(before.uid()), Some(before.gid()))
}

/// Creates a file that only its owner can read; fails if it exists.
pub(crate) fn create_secret(path: &Path, secret: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(secret.as_bytes())?;
    file.sync_all()
}
