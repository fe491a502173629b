//! Why the journal cannot grow.

use std::io;

/// Raw numbers of the errors that say that too many files are open, in the process and on the machine.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// Why no segment can be made. Nothing new is taken in then; receiving and settling go on in the room that is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The disk has no room, and not something else.
    pub(crate) full: bool,
    /// What it is, and what to do about it.
    pub(crate) text: String,
}

impl Trouble {
    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, NotFound, QuotaExceeded, StorageFull};
        let full = matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        let text = match error.kind() {
            _ if full => format!("the disk is full ({error}): make room, then try again"),
            _ if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) => {
                format!("too many files are open ({error}): raise the limit of open files, then try again")
            }
            NotFound => {
                format!("the store's directory is gone ({error}): bring it back, then open the store again")
            }
            _ => format!("the disk gives no room ({error}): see to the disk, then try again"),
        };
        Self { full, text }
    }
}

/// One line in the log for each change: the journal of `store` cannot grow any more, or can again.
pub(crate) fn log_trouble(store: &str, trouble: Option<&Trouble>) {
    if let Some(Trouble { text, .. }) = trouble {
        tracing::warn!(
            store,
            "the journal cannot grow: new messages are refused once the space that it has is used up; {text}"
        );
    } else {
        tracing::info!(store, "the journal has space again: new messages are taken in");
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::Trouble;

    #[test]
    fn causes_are_told_apart() {
        for (code, full, said) in [
            (28, true, "the disk is full"),
            (122, true, "the disk is full"),
            (24, false, "limit of open files"),
            (2, false, "directory is gone"),
            (5, false, "see to the disk"),
        ] {
            let Trouble { full: is_full, text } = Trouble::of(&io::Error::from_raw_os_error(code));
            assert_eq!(is_full, full, "{text}");
            assert!(text.contains(said) && text.contains(&format!("os error {code}")), "{text}");
        }
    }
}
