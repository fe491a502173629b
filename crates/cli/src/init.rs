//! `oncebox init`: makes what a server with tokens needs.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use crate::cap::{first_keyring, operator_token};
use crate::error::CliError;
use crate::output;
use crate::token_file;

/// How long the first token is valid, in days.
const DAYS: u64 = 90;

/// Make a key file, a configuration and a first token for operators.
///
/// Creates `keys`, `oncebox.toml` and `operator.token` in a directory, and prints how to go on. Existing files are left as
/// they are.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory for the files; created if it is missing.
    #[arg(default_value = ".")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    let failed = |path: &Path, error: std::io::Error| {
        CliError::failed(format!("cannot create {}: {error}", path.display()))
    };
    let directory = absolute(&arguments.directory).map_err(|error| failed(&arguments.directory, error))?;
    fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?;
    let [keys, config, token] = ["keys", "oncebox.toml", "operator.token"].map(|name| directory.join(name));
    if let Some(existing) = [&keys, &config, &token].into_iter().find(|path| path.exists()) {
        return Err(CliError::failed(format!(
            "{} exists: nothing was changed; choose another directory, or remove it",
            existing.display()
        )));
    }
    let keyring = first_keyring()?;
    let minted = operator_token(&keyring, DAYS)?;
    let text = configuration(&directory.join("data"), &keys)?;
    token_file::create_secret(&keys, &keyring.to_text()).map_err(|error| failed(&keys, error))?;
    fs::write(&config, text).map_err(|error| failed(&config, error))?;
    token_file::create_secret(&token, &minted).map_err(|error| failed(&token, error))?;
    let (config, token) = (config.display(), token.display());
    output::note(&format!(
        "made {}, {config} and {token}; the token is valid for {DAYS} days",
        keys.display()
    ));
    let next =
        format!("oncebox serve --config {config}\noncebox login --token-file {token}\noncebox topics\n");
    output::write_bytes(next.as_bytes())
}

fn configuration(data: &Path, keys: &Path) -> Result<String, CliError> {
    let quoted = |path: &Path| match path.to_str() {
        Some(text) if !text.contains(['"', '\\']) && !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(CliError::failed(format!(
            "{} cannot be written in TOML: choose another name",
            path.display()
        ))),
    };
    let (data, keys) = (quoted(data)?, quoted(keys)?);
    Ok(format!(
        "# `oncebox config reference` lists all settings.\n\
         store = \"embedded:{data}\"\n\n\
         [auth]\n\
         key_file = \"{keys}\"\n\n\
         # For addresses that other machines can reach, such as listen = [\"0.0.0.0:7420\"]:\n\
         # [tls]\n\
         # certificate_file = \"/etc/oncebox/tls.crt\"\n\
         # key_file = \"/etc/oncebox/tls.key\"\n"
    ))
}
