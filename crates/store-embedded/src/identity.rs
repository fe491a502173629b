//! Who this store is, and which run of the operating system this is.

use oncebox_core::{Error, Kind, Rng};
use oncebox_system::SystemRng;

use crate::disk::Disk;
use crate::format::{MAGIC, begins_ours, other_version, unsupported};
use crate::frame::StoreId;
use crate::lock;
use crate::manifest::{FILE_BYTES, Newest};
use crate::recovery::{failed, missing};
use crate::segment::{self, segment_number};

pub(crate) const NAME: &str = "store";
const BYTES: usize = 8 + 16 + 16;
/// What a volume may contain before anything is put there; so may it any name with a dot in front.
const OF_VOLUMES: &str = "lost+found";

/// What a directory is.
enum Place {
    Store(StoreId),
    /// Nothing is in it, or what an opening that failed has left.
    New {
        left_over: bool,
    },
}

/// What the file `store` is.
enum Found {
    Missing,
    Whole(StoreId),
    /// Ours, and damaged or not written to its end.
    Damaged,
    /// Empty or zeros: perhaps ours.
    Blank,
    /// Of something else.
    Foreign,
}

/// Whether a file with this name in the directory of a store is the store's. Others are left alone.
pub(crate) fn is_own(name: &str) -> bool {
    name == NAME || name == lock::HOLDER || segment_number(name).is_some()
}

/// Refuses a directory in which no store can be opened: of another format version, without what is needed to read it, or neither a
/// store nor empty. Changes nothing.
pub(crate) fn check(disk: &dyn Disk) -> Result<(), Error> {
    place(disk).map(drop)
}

/// The id of the store in a directory, made when the directory is empty. Refuses what [`check`] does.
pub(crate) fn store_id(disk: &dyn Disk) -> Result<StoreId, Error> {
    match place(disk)? {
        Place::Store(id) => Ok(id),
        Place::New { left_over } => {
            make(disk, left_over).map_err(|error| failed("writing the store's id", error))
        }
    }
}

fn place(disk: &dyn Disk) -> Result<Place, Error> {
    let names = disk.names().map_err(|error| failed("listing the directory", error))?;
    let found = find(disk, &names)?;
    if names.iter().any(|name| segment_number(name).is_some()) {
        return match found {
            Found::Whole(id) => Ok(Place::Store(id)),
            _ => Err(unidentified(disk, &names)?),
        };
    }
    // The id is durable before the first segment is made, so without segments nothing was ever answered. An id that is
    // there all the same is left over from an opening that failed, and may not be on disk.
    if let Some(Newest { number, .. }) = newest(disk, &names)? {
        return Err(missing(Some(number), None));
    }
    match (found, names.iter().find(|name| is_foreign(name))) {
        (Found::Foreign, _) => Err(not_a_store(disk, "its `store` was not written by Oncebox")),
        (Found::Missing | Found::Blank, Some(foreign)) => {
            Err(not_a_store(disk, &format!("it contains `{}`", foreign.escape_debug())))
        }
        (Found::Missing, None) => Ok(Place::New { left_over: false }),
        (Found::Whole(_) | Found::Damaged, _) | (Found::Blank, None) => Ok(Place::New { left_over: true }),
    }
}

fn is_foreign(name: &str) -> bool {
    !is_own(name) && name != OF_VOLUMES && !name.starts_with('.')
}

fn not_a_store(disk: &dyn Disk, why: &str) -> Error {
    let place = disk.place();
    let text = format!(
        "{place} is neither empty nor an embedded store ({why}): name a new or an empty directory, as in {place}/oncebox"
    );
    Error::new(Kind::Invalid, text)
}

/// There are segments, and the file `store` does not tell whose.
fn unidentified(disk: &dyn Disk, names: &[String]) -> Result<Error, Error> {
    let text = "the file `store` with the id of the journal is missing or damaged: restore it from a copy";
    let version = segment::other_version(disk, names)?;
    Ok(version.map_or_else(|| Error::new(Kind::Corrupt, text), unsupported))
}

/// The id that stands in the directory, if it is there and whole. Of another format version it is [`Kind::Unsupported`].
pub(crate) fn recorded(disk: &dyn Disk, names: &[String]) -> Result<Option<StoreId>, Error> {
    Ok(if let Found::Whole(id) = find(disk, names)? { Some(id) } else { None })
}

/// Whether there is a file `store` that may be ours.
pub(crate) fn is_there(disk: &dyn Disk, names: &[String]) -> Result<bool, Error> {
    Ok(!matches!(find(disk, names)?, Found::Missing | Found::Foreign))
}

/// What the file `store` says about the newest segment, if that file is whole.
pub(crate) fn newest(disk: &dyn Disk, names: &[String]) -> Result<Option<Newest>, Error> {
    let Some(id) = recorded(disk, names)? else { return Ok(None) };
    let (bytes, _) = read(disk).map_err(|error| failed("reading the store's id", error))?;
    Ok(Newest::decode(&bytes, &id))
}

fn find(disk: &dyn Disk, names: &[String]) -> Result<Found, Error> {
    if !names.iter().any(|name| name == NAME) {
        return Ok(Found::Missing);
    }
    let (bytes, size) = match read(disk) {
        Err(error) if error.kind() == std::io::ErrorKind::IsADirectory => return Ok(Found::Foreign),
        read => read.map_err(|error| failed("reading the store's id", error))?,
    };
    if let Some(id) = decode(&bytes) {
        return Ok(Found::Whole(id));
    }
    if let Some(version) = other_version(&bytes, |bytes| decode(bytes).is_some()) {
        return Err(unsupported(version));
    }
    let blank = bytes.iter().zip(MAGIC).all(|(byte, ours)| byte == ours || *byte == 0);
    if begins_ours(&bytes) || decode(&with_magic(&bytes)).is_some() {
        Ok(Found::Damaged)
    } else if blank && size <= FILE_BYTES as u64 {
        Ok(Found::Blank)
    } else {
        Ok(Found::Foreign)
    }
}

/// The bytes with those first that ours have: if they are whole then, only their beginning was damaged.
fn with_magic(bytes: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), bytes.get(MAGIC.len()..).unwrap_or_default()].concat()
}

/// What can be ours of the file `store`, and how many bytes it has.
fn read(disk: &dyn Disk) -> std::io::Result<(Vec<u8>, u64)> {
    let file = disk.open(NAME)?;
    let mut bytes = vec![0; FILE_BYTES];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok((bytes, file.size()?))
}

fn make(disk: &dyn Disk, left_over: bool) -> std::io::Result<StoreId> {
    let mut rng = SystemRng::default();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    id[8..].copy_from_slice(&rng.next_u64().to_le_bytes());
    write(disk, id, left_over)
}

/// Writes the id into the directory, durably; into the file that is there if it is `left_over`.
pub(crate) fn write(disk: &dyn Disk, id: StoreId, left_over: bool) -> std::io::Result<StoreId> {
    let mut bytes = [MAGIC.as_slice(), &id].concat();
    bytes.extend_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    bytes.resize(FILE_BYTES, 0);
    let file = if left_over { disk.open(NAME)? } else { disk.create(NAME)? };
    file.write_at(0, &bytes)?;
    file.sync()?;
    disk.sync_names()?;
    Ok(id)
}

fn decode(bytes: &[u8]) -> Option<StoreId> {
    let (checked, checksum) = bytes.get(..BYTES)?.split_at(BYTES - 16);
    let intact = blake3::hash(checked).as_bytes()[..16] == *checksum;
    checked.strip_prefix(MAGIC).filter(|_| intact)?.try_into().ok()
}

/// Names the present run of the operating system; empty if it does not tell.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}
