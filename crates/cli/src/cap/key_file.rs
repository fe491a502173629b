//! Reading and changing a key file.

use std::fs;
use std::path::{Path, PathBuf};

use oncebox_capability::Keyring;

use crate::error::CliError;
use crate::token_file;

/// Where the keys are.
#[derive(Debug, clap::Args)]
pub(super) struct KeyFile {
    /// The key file, `auth.key_file` of the server.
    #[arg(long = "key-file", value_name = "FILE")]
    pub(super) path: PathBuf,
}

impl KeyFile {
    pub(super) fn read(&self) -> Result<Keyring, CliError> {
        let text = fs::read_to_string(&self.path)
            .map_err(|error| self.failed(&format!("{error}: create it with `oncebox cap keygen`")))?;
        Keyring::parse(&text).map_err(|error| self.failed(&error))
    }

    pub(super) fn replace(&self, keyring: &Keyring) -> Result<(), CliError> {
        token_file::write_secret(&self.path, &keyring.to_text()).map_err(|error| self.failed(&error))
    }

    pub(super) fn create(&self, keyring: &Keyring) -> Result<(), CliError> {
        token_file::create_secret(&self.path, &keyring.to_text()).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                self.failed(&"it exists: add a key with `oncebox cap rotate`, or choose another file")
            }
            _ => self.failed(&error),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, problem: &impl ToString) -> CliError {
        CliError::failed(format!("the key file {}: {}", self.path.display(), problem.to_string()))
    }
}
