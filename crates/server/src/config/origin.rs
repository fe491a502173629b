//! Origins: where a value was set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::target::Target;
use super::unit::one_line;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Not set: the default.
    Default,
    /// Not set, but implied by the setting of this name.
    Follows(&'static str),
    /// In the file.
    File {
        /// The path of the file, as given by the caller.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// In the environment, by the variable of this name.
    Variable(String),
    /// On the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Follows(name) => write!(formatter, "follows from {name}"),
            Self::File { path, line: number } => {
                write!(formatter, "{}, line {number}", one_line(&path.to_string_lossy()))
            }
            Self::Variable(name) => write!(formatter, "variable {}", one_line(name)),
            Self::Flag => formatter.write_str("command line"),
        }
    }
}

/// Where each value was set, by the setting's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Where the setting of this dotted name was set; [`Origin::Default`] if it was not set or does not exist.
    pub fn of(&self, name: &str) -> Origin {
        self.0.get(name).cloned().unwrap_or(Origin::Default)
    }

    /// Whether the setting was set or implied.
    pub(super) fn has(&self, target: &Target) -> bool {
        self.0.contains_key(&target.to_string())
    }

    /// Where the effective value was set: a topic without a value of its own uses the value of all topics.
    pub(super) fn effective(&self, target: &Target) -> Origin {
        let own = self.0.get(&target.to_string());
        own.cloned().unwrap_or_else(|| self.of(target.setting.name))
    }

    pub(super) fn insert(&mut self, target: &Target, origin: Origin) {
        self.0.insert(target.to_string(), origin);
    }
}
