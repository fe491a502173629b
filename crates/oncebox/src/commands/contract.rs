//! The contract of a stored command: its name and version.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use oncebox_core::{Error, ErrorKind, Invalid, Topic};

/// Maximum length of a contract name.
const NAME_CHARS_MAX: usize = 240;

/// The name and version under which commands of one type are stored. Both are independent of the Rust type: renaming
/// the type does not affect stored commands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contract {
    name: Arc<str>,
    version: NonZeroU32,
}

impl Contract {
    /// Creates a contract. The name has 1 to 240 characters and is not blank; the version is greater than zero.
    pub fn new(name: impl AsRef<str>, version: u32) -> Result<Self, Error> {
        let name = name.as_ref();
        if name.trim().is_empty() {
            return Err(Invalid::new("contract name", "is blank: choose one that never changes").into());
        }
        if name.contains('\0') {
            return Err(Invalid::new("contract name", "contains a NUL character: remove it").into());
        }
        let chars = name.chars().count();
        if chars > NAME_CHARS_MAX || name.len() > NAME_CHARS_MAX * 4 {
            let text = format!("contract name is {chars} characters long, the limit is {NAME_CHARS_MAX}");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let version = NonZeroU32::new(version)
            .ok_or(Invalid::new("contract version", "must be greater than zero: start with 1"))?;
        Ok(Self { name: name.into(), version })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u32 {
        self.version.get()
    }

    /// The topic under which commands of this contract are stored.
    pub(super) fn topic(&self) -> Topic {
        Topic::new(self.to_string()).expect("a contract name is within the limits of a topic")
    }

    /// The contract that this topic belongs to; `None` if it is not the topic of a contract.
    pub(super) fn from_topic(topic: &str) -> Option<Self> {
        let (name, version) = topic.rsplit_once('@')?;
        Self::new(name, version.parse().ok()?).ok()
    }

    /// The same contract with the next version.
    pub(super) fn next(&self) -> Option<Self> {
        Some(Self { name: self.name.clone(), version: self.version.checked_add(1)? })
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::Contract;

    #[test]
    fn a_contract_round_trips_through_its_topic() {
        for name in ["orders.place", "a@b", "ü".repeat(240).as_str()] {
            let contract = Contract::new(name, u32::MAX).unwrap();
            assert_eq!(Contract::from_topic(contract.topic().as_str()), Some(contract));
        }
        for topic in ["orders.place", "orders.place@", "orders.place@0", "@1", "orders.place@x"] {
            assert_eq!(Contract::from_topic(topic), None, "{topic}");
        }
    }
}
