//! Who this store is, and which run of the operating system this is.

use oncebox_core::{Error, Kind, Rng};
use oncebox_system::SystemRng;

use crate::disk::Disk;
use crate::frame::StoreId;
use crate::manifest::{FILE_BYTES, Newest};
use crate::recovery::{failed, missing};
use crate::segment::{read_all, segment_number};

pub(crate) const NAME: &str = "store";
const MAGIC: &[u8; 8] = b"ONCEBOX\x03";
const BYTES: usize = 8 + 16 + 16;

/// The id of the store in a directory, made when the directory is empty.
pub(crate) fn store_id(disk: &dyn Disk) -> Result<StoreId, Error> {
    let names = disk.names().map_err(|error| failed("listing the directory", error))?;
    let there = names.iter().any(|name| name == NAME);
    // The id is durable before the first segment is made, so without segments nothing was ever answered. An id that is
    // there all the same is left over from an opening that failed, and may not be on disk.
    if !names.iter().any(|name| segment_number(name).is_some()) {
        if let Some(Newest { number, .. }) = newest(disk, &names)? {
            return Err(missing(Some(number), None));
        }
        return make(disk, there).map_err(|error| failed("writing the store's id", error));
    }
    recorded(disk, &names)?.ok_or_else(|| {
        let text =
            "the file `store` with the id of the journal is missing or damaged: restore it from a copy";
        Error::new(Kind::Corrupt, text)
    })
}

/// The id that stands in the directory, if it is there and whole.
pub(crate) fn recorded(disk: &dyn Disk, names: &[String]) -> Result<Option<StoreId>, Error> {
    if !names.iter().any(|name| name == NAME) {
        return Ok(None);
    }
    let read = disk.open(NAME).and_then(|file| read_all(&*file));
    Ok(decode(&read.map_err(|error| failed("reading the store's id", error))?))
}

/// What the file `store` says about the newest segment, if that file is whole.
pub(crate) fn newest(disk: &dyn Disk, names: &[String]) -> Result<Option<Newest>, Error> {
    let Some(id) = recorded(disk, names)? else { return Ok(None) };
    let read = disk.open(NAME).and_then(|file| read_all(&*file));
    Ok(Newest::decode(&read.map_err(|error| failed("reading the store's id", error))?, &id))
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
