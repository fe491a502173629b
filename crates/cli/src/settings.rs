//! The server's settings, as `serve` and `config` take them.

use std::path::{Path, PathBuf};

use oncebox_server::config::{Loaded, Problems, Sources, load};

use crate::trouble::Trouble;
use crate::word;

/// No file of settings is larger.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Where settings come from: the file, then variables `ONCEBOX__SECTION__NAME`, then flags; the later holds.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Settings {
    /// A file of settings (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listens there: `IP:PORT` or `unix:/path`; may be given more than once.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Where messages are kept: `embedded:DIRECTORY`, `postgres://USER@HOST/DATABASE` or `memory:`.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Keeps nothing on disk, all messages go with the process; overwrites memory before it is freed.
    #[arg(long)]
    amnesia: bool,
    /// What the server is deployed as.
    #[arg(long, value_name = "PROFILE", value_parser = ["micronode", "macronode"])]
    profile: Option<String>,
    /// How a line of the log looks.
    #[arg(long, value_name = "FORMAT", value_parser = ["auto", "pretty", "json"])]
    log_format: Option<String>,
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`; by target as in `info,oncebox=debug`.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Any setting by its dotted name, as in `mailbox.shards=4`; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = word::pair)]
    set: Vec<(String, String)>,
}

impl Settings {
    /// What says where the store is, and nothing else.
    pub(crate) fn of_store(config: Option<PathBuf>, store: Option<String>) -> Self {
        Self { config, store, ..Self::default() }
    }

    /// Everything that holds, or everything that is wrong. The outer trouble: the file cannot be read.
    pub(crate) fn load(&self) -> Result<Result<Loaded, Problems>, Trouble> {
        let mut sources = Sources::default();
        sources.file = self
            .config
            .as_deref()
            .map(|path| Ok::<_, Trouble>((path.to_owned(), read(path)?)))
            .transpose()?;
        let variables = std::env::vars_os();
        sources.environment = variables
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        sources.flags = self.flags();
        Ok(load(&sources))
    }

    /// Dotted names and values. What has a flag of its own holds over `--set`.
    fn flags(&self) -> Vec<(String, String)> {
        let listen = (!self.listen.is_empty()).then(|| self.listen.join(","));
        let amnesia = self.amnesia.then(|| "true".to_owned());
        let own = [
            ("listen", listen),
            ("store", self.store.clone()),
            ("amnesia", amnesia),
            ("profile", self.profile.clone()),
            ("log.format", self.log_format.clone()),
            ("log.level", self.log_level.clone()),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.set.iter().cloned().chain(own).collect()
    }
}

fn read(path: &Path) -> Result<String, Trouble> {
    let name = path.display();
    let size = std::fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    if size > FILE_BYTES_MAX {
        return Err(Trouble::failed(format!("{name} has more than 1 MiB: is it a file of settings?")));
    }
    std::fs::read_to_string(path)
        .map_err(|error| Trouble::failed(format!("cannot read {name} ({error}): give --config another file")))
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
    fn flags_are_dotted_settings() {
        assert_eq!(flags("x"), [""; 0]);
        assert_eq!(
            flags(
                "x --listen 127.0.0.1:1 --listen unix:/a --amnesia --log-level debug --set mailbox.shards=4"
            ),
            ["mailbox.shards=4", "listen=127.0.0.1:1,unix:/a", "amnesia=true", "log.level=debug"]
        );
    }

    #[test]
    fn every_flag_is_known_to_the_server() {
        let line = "x --listen 127.0.0.1:1 --store memory: --amnesia --profile micronode --log-format json --log-level debug";
        let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}"));
        let loaded = line.settings.load().unwrap_or_else(|trouble| panic!("{trouble:?}"));
        assert!(loaded.is_ok(), "{:?}", loaded.err());
    }
}
