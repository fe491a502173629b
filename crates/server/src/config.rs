//! The configuration: defaults, then a TOML file, then the environment, then flags; the later wins.
//!
//! ```
//! use oncebox_server::config::{Sources, load};
//!
//! let mut sources = Sources::default();
//! sources.file = Some(("oncebox.toml".into(), "[mailbox]\nshards = 4\n".to_owned()));
//! sources.environment = vec![("ONCEBOX__MAILBOX__SHARDS".to_owned(), "16".to_owned())];
//! let loaded = load(&sources)?;
//! assert_eq!(loaded.config.mailbox.shards, 16);
//! assert_eq!(loaded.origins.of("mailbox.shards").to_string(), "variable ONCEBOX__MAILBOX__SHARDS");
//! # Ok::<(), oncebox_server::config::Problems>(())
//! ```

mod sections;

mod field;
mod setting;
mod table;
mod target;

mod kind;
mod listen;
mod raw;
mod store;
mod unit;

mod draft;
mod layers;
mod nearest;
mod origin;
mod problem;
mod redrive;
mod rules;

mod describe;
mod show;

use std::path::PathBuf;

pub use describe::{example, reference};
pub use listen::Listen;
pub use origin::{Origin, Origins};
pub use problem::Problems;
pub use redrive::RedriveRule;
pub use sections::{Config, Http, Ledger, Log, LogFormat, Metrics, Profile, Retention, Shutdown, UnknownKey};
pub use show::show;

/// What a configuration is read from. Reading the file and the environment is the caller's.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Sources {
    /// The file's path, as errors name it, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Names and values; those that do not begin with `ONCEBOX__` are left alone.
    pub environment: Vec<(String, String)>,
    /// Dotted names and values, as `("mailbox.shards", "16")`. Of two with the same name the later holds.
    pub flags: Vec<(String, String)>,
}

/// A configuration without faults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// What holds.
    pub config: Config,
    /// Where each value was set.
    pub origins: Origins,
    /// What is allowed but may surprise; a sentence each.
    pub warnings: Vec<String>,
}

/// Reads a configuration. If anything is wrong, the error tells all of it.
///
/// A wrong value is told even where a later source overrides it.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let (given, rules) = layers::read(sources, &mut problems);
    let mut draft = draft::Draft::new(given, &mut problems);
    draft.config.redrive = rules;
    let warnings = rules::check(&mut draft, &mut problems);
    problems.none()?;
    Ok(Loaded { config: draft.config, origins: draft.origins, warnings })
}
