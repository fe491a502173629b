//! The identity of a store (the file `store`), and the boot id of the operating system.

use oncebox_core::{Error, ErrorKind, Rng};
use oncebox_system::SystemRng;

use crate::disk::Disk;
use crate::error::{failed, missing};
use crate::file_names::{STORE_FILE, is_own, segment_number};
use crate::format::{MAGIC, has_magic, other_version, unsupported};
use crate::frame::StoreId;
use crate::manifest::{FILE_BYTES, NewestSegment};
use crate::segment;

const BYTES: usize = 8 + 16 + 16;
/// What a new volume may contain besides names that start with a dot.
const VOLUME_ENTRY: &str = "lost+found";

/// What a directory contains.
enum DirectoryState {
    Store(StoreId),
    /// Nothing, or the leftovers of a failed open.
    New {
        left_over: bool,
    },
}

/// The state of the file `store`.
enum StoreFile {
    Missing,
    Intact(StoreId),
    /// A store's, but damaged or incompletely written.
    Damaged,
    /// Empty or zeros: possibly a store's.
    Blank,
    /// Not written by Oncebox.
    Foreign,
}

/// Rejects a directory in which no store can be opened: the format version differs, the store's id is missing, or the
/// directory is neither a store nor empty. Changes nothing.
pub(crate) fn check(disk: &dyn Disk) -> Result<(), Error> {
    classify(disk).map(drop)
}

/// The id of the store in a directory, created if the directory is empty. Rejects the same directories as [`check`].
pub(crate) fn store_id(disk: &dyn Disk) -> Result<StoreId, Error> {
    match classify(disk)? {
        DirectoryState::Store(id) => Ok(id),
        DirectoryState::New { left_over } => {
            create(disk, left_over).map_err(|error| failed("writing the store's id", error))
        }
    }
}

fn classify(disk: &dyn Disk) -> Result<DirectoryState, Error> {
    let names = disk.names().map_err(|error| failed("listing the directory", error))?;
    let found = find(disk, &names)?;
    if names.iter().any(|name| segment_number(name).is_some()) {
        return match found {
            StoreFile::Intact(id) => Ok(DirectoryState::Store(id)),
            _ => Err(unidentified(disk, &names)?),
        };
    }
    // The id is durable before the first segment is created, so without segments no write was ever confirmed. An id
    // that exists nevertheless is left over from a failed open, and may not be durable.
    if let Some(NewestSegment { number, .. }) = newest(disk, &names)? {
        return Err(missing(Some(number), None));
    }
    match (found, names.iter().find(|name| is_foreign(name))) {
        (StoreFile::Foreign, _) => Err(not_a_store(disk, "its `store` was not written by Oncebox")),
        (StoreFile::Missing | StoreFile::Blank, Some(foreign)) => {
            Err(not_a_store(disk, &format!("it contains `{}`", foreign.escape_debug())))
        }
        (StoreFile::Missing, None) => Ok(DirectoryState::New { left_over: false }),
        (StoreFile::Intact(_) | StoreFile::Damaged, _) | (StoreFile::Blank, None) => {
            Ok(DirectoryState::New { left_over: true })
        }
    }
}

fn is_foreign(name: &str) -> bool {
    !is_own(name) && name != VOLUME_ENTRY && !name.starts_with('.')
}

fn not_a_store(disk: &dyn Disk, why: &str) -> Error {
    let location = disk.location();
    let text = format!(
        "{location} is neither empty nor an embedded store ({why}): use a new or empty directory, for example \
         {location}/oncebox"
    );
    Error::new(ErrorKind::Invalid, text)
}

/// The error for segments without an intact file `store`.
fn unidentified(disk: &dyn Disk, names: &[String]) -> Result<Error, Error> {
    let text = "the file `store` with the store's id is missing or damaged: restore it from a backup";
    let version = segment::other_version(disk, names)?;
    Ok(version.map_or_else(|| Error::new(ErrorKind::Corrupt, text), unsupported))
}

/// The id in the file `store`, if that file is intact. [`ErrorKind::Unsupported`] if it has another format version.
pub(crate) fn recorded(disk: &dyn Disk, names: &[String]) -> Result<Option<StoreId>, Error> {
    Ok(if let StoreFile::Intact(id) = find(disk, names)? { Some(id) } else { None })
}

/// Whether there is a file `store` that may be a store's.
pub(crate) fn has_store_file(disk: &dyn Disk, names: &[String]) -> Result<bool, Error> {
    Ok(!matches!(find(disk, names)?, StoreFile::Missing | StoreFile::Foreign))
}

/// The newest segment, as the file `store` names it, if that file is intact.
pub(crate) fn newest(disk: &dyn Disk, names: &[String]) -> Result<Option<NewestSegment>, Error> {
    let Some(id) = recorded(disk, names)? else { return Ok(None) };
    let (bytes, _) = read(disk).map_err(|error| failed("reading the store's id", error))?;
    Ok(NewestSegment::decode(&bytes, &id))
}

fn find(disk: &dyn Disk, names: &[String]) -> Result<StoreFile, Error> {
    if !names.iter().any(|name| name == STORE_FILE) {
        return Ok(StoreFile::Missing);
    }
    let (bytes, size) = match read(disk) {
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => return Ok(StoreFile::Foreign),
        read => read.map_err(|error| failed("reading the store's id", error))?,
    };
    if let Some(id) = decode(&bytes) {
        return Ok(StoreFile::Intact(id));
    }
    if let Some(version) = other_version(&bytes, |bytes| decode(bytes).is_some()) {
        let error = unsupported(version);
        // Another version may have begun to convert the store, so this is not certain to be damage.
        let text = "the segments beside it have this version, so the file `store` may be damaged: then restore it from a backup";
        let is_mixed = segment::any_of_this_version(disk, names)?;
        return Err(if is_mixed { Error::new(error.kind(), format!("{error}; {text}")) } else { error });
    }
    let blank = bytes.iter().zip(MAGIC).all(|(byte, ours)| byte == ours || *byte == 0);
    if has_magic(&bytes) || decode(&with_magic(&bytes)).is_some() {
        Ok(StoreFile::Damaged)
    } else if blank && size <= FILE_BYTES as u64 {
        Ok(StoreFile::Blank)
    } else {
        Ok(StoreFile::Foreign)
    }
}

/// The bytes with the magic number restored: if they are valid then, only their beginning was damaged.
fn with_magic(bytes: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), bytes.get(MAGIC.len()..).unwrap_or_default()].concat()
}

/// The first [`FILE_BYTES`] of the file `store`, and its size.
fn read(disk: &dyn Disk) -> std::io::Result<(Vec<u8>, u64)> {
    let file = disk.open(STORE_FILE)?;
    let mut bytes = vec![0; FILE_BYTES];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok((bytes, file.size()?))
}

fn create(disk: &dyn Disk, left_over: bool) -> std::io::Result<StoreId> {
    let mut rng = SystemRng::default();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    id[8..].copy_from_slice(&rng.next_u64().to_le_bytes());
    write(disk, id, left_over)
}

/// Writes the file `store` with this id, durably; overwrites the existing file if there is a `left_over` one.
pub(crate) fn write(disk: &dyn Disk, id: StoreId, left_over: bool) -> std::io::Result<StoreId> {
    let mut bytes = [MAGIC.as_slice(), &id].concat();
    bytes.extend_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    bytes.resize(FILE_BYTES, 0);
    let file = if left_over { disk.open(STORE_FILE)? } else { disk.create(STORE_FILE)? };
    file.write_at(0, &bytes)?;
    file.sync()?;
    disk.sync_directory()?;
    Ok(id)
}

fn decode(bytes: &[u8]) -> Option<StoreId> {
    let (checked, checksum) = bytes.get(..BYTES)?.split_at(BYTES - 16);
    let intact = blake3::hash(checked).as_bytes()[..16] == *checksum;
    checked.strip_prefix(MAGIC).filter(|_| intact)?.try_into().ok()
}

/// The boot id of the operating system; empty if it is not available.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
