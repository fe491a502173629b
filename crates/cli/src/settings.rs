//! Command-line options for the server configuration, shared by `serve` and `config`.

use std::path::{Path, PathBuf};

use oncebox_server::config::{Loaded, Problems, Sources, load};

use crate::error::CliError;
use crate::value;

/// Maximum size of a configuration file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Sources of the configuration. Flags override environment variables (`ONCEBOX__SECTION__NAME`), which override the
/// file.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Settings {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on: `IP:PORT` or `unix:/path`; may be given more than once.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Store for messages: `embedded:DIRECTORY`, `postgres://USER@HOST/DATABASE` or `memory:`.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Store nothing on disk, so that all messages are lost when the process ends, and overwrite memory before it is
    /// freed.
    #[arg(long)]
    amnesia: bool,
    /// Deployment profile.
    #[arg(long, value_name = "PROFILE", value_parser = ["micronode", "macronode"])]
    profile: Option<String>,
    /// Log format.
    #[arg(long, value_name = "FORMAT", value_parser = ["auto", "pretty", "json"])]
    log_format: Option<String>,
    /// Log level: `error`, `warn`, `info`, `debug` or `trace`; per target as in `info,oncebox=debug`.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Set any setting by its dotted name, as in `mailbox.shards=4`; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::name_and_value)]
    set: Vec<(String, String)>,
}

impl Settings {
    /// Only the options that determine the store.
    pub(crate) fn for_store(config: Option<PathBuf>, store: Option<String>) -> Self {
        Self { config, store, ..Self::default() }
    }

    /// Loads the effective configuration, or all problems in it. The outer error means that the file cannot be read.
    pub(crate) fn load(&self) -> Result<Result<Loaded, Problems>, CliError> {
        let mut sources = Sources::default();
        sources.file = self
            .config
            .as_deref()
            .map(|path| Ok::<_, CliError>((path.to_owned(), read(path)?)))
            .transpose()?;
        let variables = std::env::vars_os();
        sources.environment = variables
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        sources.flags = self.flags();
        Ok(load(&sources))
    }

    /// Dotted names and values. Dedicated flags come after, and so override, `--set`.
    fn flags(&self) -> Vec<(String, String)> {
        let listen = (!self.listen.is_empty()).then(|| self.listen.join(","));
        let amnesia = self.amnesia.then(|| "true".to_owned());
        let dedicated = [
            ("listen", listen),
            ("store", self.store.clone()),
            ("amnesia", amnesia),
            ("profile", self.profile.clone()),
            ("log.format", self.log_format.clone()),
            ("log.level", self.log_level.clone()),
        ];
        let dedicated = dedicated.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.set.iter().cloned().chain(dedicated).collect()
    }
}

fn read(path: &Path) -> Result<String, CliError> {
    let name = path.display();
    let size = std::fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    if size > FILE_BYTES_MAX {
        return Err(CliError::failed(format!("{name} is larger than 1 MiB: is it a configuration file?")));
    }
    std::fs::read_to_string(path).map_err(|error| {
        CliError::failed(format!("cannot read {name} ({error}): pass another file to --config"))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Settings;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    fn flags(line: &str) -> Vec<String> {
        let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
        line.settings.flags().into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn flags_become_dotted_settings() {
        assert_eq!(flags("x"), [""; 0]);
        assert_eq!(
            flags(
                "x --listen 127.0.0.1:1 --listen unix:/a --amnesia --log-level debug --set mailbox.shards=4"
            ),
            ["mailbox.shards=4", "listen=127.0.0.1:1,unix:/a", "amnesia=true", "log.level=debug"]
        );
    }

    #[test]
    fn the_server_accepts_every_flag() {
        let line = "x --listen 127.0.0.1:1 --store memory: --amnesia --profile micronode --log-format json --log-level debug";
        let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
        let loaded = line.settings.load().unwrap_or_else(|error| panic!("{error:?}"));
        assert!(loaded.is_ok(), "{:?}", loaded.err());
    }
}
