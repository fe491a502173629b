//! The names of a store's files.

/// The file with the store's id and the manifest.
pub(crate) const STORE_FILE: &str = "store";
/// The file with the process id of the lock's holder.
pub(crate) const PID_FILE: &str = "lock";

/// The file name of the segment with this number.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:08}.seg")
}

/// The number in a segment's file name; none if it is another kind of file.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".seg")?.parse().ok()?;
    (number < u64::MAX && segment_name(number) == name).then_some(number)
}

/// Whether a file with this name belongs to the store. Other files in the directory are left alone.
pub(crate) fn is_own(name: &str) -> bool {
    name == STORE_FILE || name == PID_FILE || segment_number(name).is_some()
}
