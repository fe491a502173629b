//! A row of the table of settings.

use super::field::Value;
use super::kind::Kind;
use super::sections::Config;

/// A setting; its name is the path of its field.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Description for the reference, without the full stop.
    pub(super) description: &'static str,
    pub(super) get: fn(&Config) -> Value,
    pub(super) set: fn(&mut Config, Value),
}

impl Setting {
    /// Its section and its own name; the section is empty at the top level.
    pub(super) fn parts(&self) -> (&'static str, &'static str) {
        self.name.rsplit_once('.').unwrap_or(("", self.name))
    }

    /// Its value in `config`, as TOML.
    pub(super) fn text(&self, config: &Config) -> String {
        self.kind.toml(&(self.get)(config))
    }
}

/// `setting!(mailbox.shards, kind, "description")`
macro_rules! setting {
    ($first:ident $(. $part:ident)*, $kind:expr, $description:literal) => {
        $crate::config::setting::Setting {
            name: concat!(stringify!($first) $(, ".", stringify!($part))*),
            kind: $kind,
            description: $description,
            get: |config| $crate::config::field::Field::read(&config.$first$(.$part)*),
            set: |config, value| $crate::config::field::Field::write(&mut config.$first$(.$part)*, value),
        }
    };
}
pub(super) use setting;
