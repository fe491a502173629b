//! The configuration: defaults, a TOML file, environment variables and command line flags, in ascending precedence.
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
mod redact;
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
pub use listen::ListenAddress;
pub use origin::{Origin, Origins};
pub use problem::Problems;
pub use sections::{
    AuthConfig, Config, HttpConfig, LedgerConfig, LogConfig, LogFormat, MetricsConfig, Profile, RedriveRule,
    RetentionConfig, ShutdownConfig, TlsConfig, UnknownKey,
};
pub use show::show;

/// Sources of a configuration. The caller reads the file and the environment.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Sources {
    /// The path of the file, as errors name it, and its text.
    pub file: Option<(PathBuf, String)>,
    /// Names and values of environment variables; those without the prefix `ONCEBOX__` are ignored.
    pub environment: Vec<(String, String)>,
    /// Dotted names and values, such as `("mailbox.shards", "16")`. If a name occurs twice, the later value wins.
    pub flags: Vec<(String, String)>,
}

/// A valid configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// The effective values.
    pub config: Config,
    /// Where each value was set.
    pub origins: Origins,
    /// Warnings about valid but risky settings, one sentence each.
    pub warnings: Vec<String>,
}

/// Loads a configuration. If anything is invalid, the error lists all problems.
///
/// An invalid value is an error even if a later source overrides it.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let (assignments, rules) = layers::read(sources, &mut problems);
    let mut draft = draft::Draft::new(assignments, &mut problems);
    draft.config.redrive = rules;
    let warnings = rules::check(&mut draft, &mut problems);
    problems.into_result()?;
    Ok(Loaded { config: draft.config, origins: draft.origins, warnings })
}
