//! What a stored command is called, and in which version.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use oncebox_core::{Error, Invalid, Kind, Topic};

/// Longest name of a contract.
const NAME_CHARS_MAX: usize = 240;

/// The name and version under which commands of one type are stored. Both outlive the type: renaming that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contract {
    name: Arc<str>,
    version: NonZeroU32,
}

impl Contract {
    /// A name of 1 to 240 characters that is not blank, and a version greater than zero.
    pub fn new(name: impl AsRef<str>, version: u32) -> Result<Self, Error> {
        let name = name.as_ref();
        if name.trim().is_empty() {
            return Err(Invalid::new("contract name", "is blank: give one that never changes").into());
        }
        if name.contains('\0') {
            return Err(Invalid::new("contract name", "holds a NUL character: remove it").into());
        }
        let chars = name.chars().count();
        if chars > NAME_CHARS_MAX || name.len() > NAME_CHARS_MAX * 4 {
            let text = format!("contract name is {chars} characters long, the limit is {NAME_CHARS_MAX}");
            return Err(Error::new(Kind::Invalid, text));
        }
        let version = NonZeroU32::new(version)
            .ok_or(Invalid::new("contract version", "must be greater than zero: begin with 1"))?;
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

    /// The topic that its commands are stored under.
    pub(super) fn topic(&self) -> Topic {
        Topic::new(self.to_string()).expect("a contract's name is in bounds")
    }

    /// The contract whose commands are stored under this topic.
    pub(super) fn of_topic(topic: &str) -> Option<Self> {
        let (name, version) = topic.rsplit_once('@')?;
        Self::new(name, version.parse().ok()?).ok()
    }

    /// The version after this one.
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
    fn a_contract_is_found_by_its_topic_whatever_its_name() {
        for name in ["orders.place", "a@b", "ü".repeat(240).as_str()] {
            let contract = Contract::new(name, u32::MAX).unwrap();
            assert_eq!(Contract::of_topic(contract.topic().as_str()), Some(contract));
        }
        for topic in ["orders.place", "orders.place@", "orders.place@0", "@1", "orders.place@x"] {
            assert_eq!(Contract::of_topic(topic), None, "{topic}");
        }
    }
}
