//! The disk error that keeps the journal from growing.

use std::io;
use std::time::Duration;

/// How long to wait before asking a full disk again.
pub(crate) const DISK_RETRY: Duration = Duration::from_secs(1);

/// EMFILE and ENFILE: too many open files, in the process and on the machine.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// Why no segment can be created. Nothing new is accepted meanwhile; receiving and settling continue in the space that
/// is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskError {
    /// Whether the disk or a quota is full; false for any other error.
    pub(crate) full: bool,
    /// The cause, and what to do about it.
    pub(crate) text: String,
}

impl DiskError {
    pub(crate) fn from_io(error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, NotFound, QuotaExceeded, StorageFull};
        let full = matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        let text = match error.kind() {
            _ if full => format!("the disk is full ({error}): free some space, then retry"),
            _ if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) => {
                format!("too many files are open ({error}): raise the limit of open files, then retry")
            }
            NotFound => {
                format!("the store's directory is missing ({error}): restore it, then reopen the store")
            }
            _ => format!("creating a segment failed ({error}): check the disk, then retry"),
        };
        Self { full, text }
    }
}

/// Logs that the journal of `store` cannot grow any more, or that it can again.
pub(crate) fn log_disk_error(store: &str, disk_error: Option<&DiskError>) {
    if let Some(DiskError { text, .. }) = disk_error {
        tracing::warn!(
            store,
            "the journal cannot grow: new messages are rejected once its free space is used up; {text}"
        );
    } else {
        tracing::info!(store, "the journal has space again: new messages are accepted");
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::DiskError;

    #[test]
    fn each_cause_has_its_own_text() {
        for (code, full, expected) in [
            (28, true, "the disk is full"),
            (122, true, "the disk is full"),
            (24, false, "limit of open files"),
            (2, false, "directory is missing"),
            (5, false, "check the disk"),
        ] {
            let DiskError { full: is_full, text } = DiskError::from_io(&io::Error::from_raw_os_error(code));
            assert_eq!(is_full, full, "{text}");
            assert!(text.contains(expected) && text.contains(&format!("os error {code}")), "{text}");
        }
    }
}
