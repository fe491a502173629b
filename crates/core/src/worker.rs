//! The display name of a worker, which shows operators who holds a message or held it last.

use std::fmt;
use std::sync::Arc;

use crate::error::Invalid;
use crate::limits::WORKER_BYTES_MAX;

/// The display name of a worker: 1 to [`WORKER_BYTES_MAX`] printable ASCII characters. Cheap to clone.
///
/// It is only shown to operators: leases are held by an [`crate::Owner`] and a fence.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerName(Arc<str>);

impl WorkerName {
    /// Accepts 1 to [`WORKER_BYTES_MAX`] printable ASCII characters.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        const FIELD: &str = "worker";
        let name = name.into();
        if name.is_empty() {
            return Err(Invalid::empty(FIELD));
        }
        if name.len() > WORKER_BYTES_MAX {
            return Err(Invalid::too_long(FIELD, "bytes", WORKER_BYTES_MAX, name.len()));
        }
        if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(Invalid::new(
                FIELD,
                "has a character that is not printable ASCII: use letters, digits, spaces and punctuation",
            ));
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerName;

    #[test]
    fn a_name_is_printable_and_bounded() {
        for name in ["w", "host-7:4711", "orders worker (blue)", &"n".repeat(128)] {
            assert_eq!(WorkerName::new(name).unwrap().to_string(), name);
        }
        for (name, fault) in [
            ("", "worker is empty: give at least one character"),
            (&*"n".repeat(129), "worker is 129 bytes long, the limit is 128"),
            ("a\nb", "worker has a character that is not printable ASCII"),
            ("w\u{7f}", "worker has a character that is not printable ASCII"),
            ("wörker", "worker has a character that is not printable ASCII"),
        ] {
            let refused = WorkerName::new(name).unwrap_err().to_string();
            assert!(refused.starts_with(fault), "{refused}");
        }
    }
}
