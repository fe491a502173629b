//! Root keys: `keygen`, `rotate` and `key-status`.

use oncebox_capability::{KeyError, KeyId, Keyring, RootKey, RootKeyStatus};
use serde_json::json;

use super::key_file::KeyFile;
use super::random;
use crate::error::CliError;
use crate::output::{self, Cell, Output, table};

/// Create a key file with one random key.
///
/// Set its path as `auth.key_file` of the server. Who can read it can make any token.
#[derive(Debug, clap::Args)]
pub(super) struct Keygen {
    #[command(flatten)]
    key_file: KeyFile,
    /// Id of the key: up to 32 characters of a-z, 0-9, `_` and `-`.
    #[arg(long, value_name = "ID", default_value = "k1")]
    id: String,
}

/// Add a random key, with which new tokens are made.
///
/// Tokens of the key before it stay valid, until that key is retired with `oncebox cap key-status`. The server reads the
/// file again on SIGHUP.
#[derive(Debug, clap::Args)]
pub(super) struct Rotate {
    #[command(flatten)]
    key_file: KeyFile,
    /// Id of the new key (default: `k` and the next number).
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Change the status of a key.
///
/// `accepted`: its tokens are valid. `retired`: its tokens are good for the settlement of what was received with them, until
/// they expire. `compromised`: its tokens are refused, and this cannot be undone. The server reads the file again on
/// SIGHUP.
#[derive(Debug, clap::Args)]
pub(super) struct KeyStatus {
    #[command(flatten)]
    key_file: KeyFile,
    /// Id of the key.
    id: String,
    /// The new status.
    #[arg(value_parser = ["active", "accepted", "retired", "compromised"])]
    status: String,
}

pub(super) fn keygen(keygen: &Keygen, output: Output) -> Result<(), CliError> {
    let keyring = Keyring::new(key_id(&keygen.id)?, root_key()?);
    keygen.key_file.create(&keyring)?;
    let path = keygen.key_file.path().display();
    output::note(&format!(
        "set `auth.key_file = \"{path}\"`, and make a first token with `oncebox cap mint`"
    ));
    print(&keyring, output)
}

pub(super) fn rotate(rotate: &Rotate, output: Output) -> Result<(), CliError> {
    let mut keyring = rotate.key_file.read()?;
    let id = match &rotate.id {
        Some(id) => key_id(id)?,
        None => next_id(&keyring)?,
    };
    keyring.rotate(id, root_key()?).map_err(|error| failed(&error))?;
    rotate.key_file.replace(&keyring)?;
    output::note("send SIGHUP to the servers before you use tokens of the new key");
    print(&keyring, output)
}

pub(super) fn set_status(change: &KeyStatus, output: Output) -> Result<(), CliError> {
    let mut keyring = change.key_file.read()?;
    let Some(status) = RootKeyStatus::from_name(&change.status) else {
        return Err(CliError::Usage("no such status".to_owned()));
    };
    keyring.set_status(&key_id(&change.id)?, status).map_err(|error| failed(&error))?;
    change.key_file.replace(&keyring)?;
    output::note("send SIGHUP to the servers: until then, they use the old status");
    print(&keyring, output)
}

/// A keyring with a random key.
pub(crate) fn first_keyring() -> Result<Keyring, CliError> {
    Ok(Keyring::new(key_id("k1")?, root_key()?))
}

fn next_id(keyring: &Keyring) -> Result<KeyId, CliError> {
    let is_free = |id: &KeyId| keyring.keys().all(|(known, _)| known != id);
    let next = (keyring.keys().count() + 1..).map(|number| key_id(&format!("k{number}")));
    next.into_iter().find(|id| id.as_ref().map_or(true, is_free)).unwrap_or_else(|| key_id(""))
}

fn key_id(text: &str) -> Result<KeyId, CliError> {
    KeyId::new(text).map_err(|error| failed(&error))
}

fn root_key() -> Result<RootKey, CliError> {
    RootKey::new(&random::bytes::<32>()?).map_err(|error| failed(&error))
}

fn failed(error: &KeyError) -> CliError {
    CliError::failed(error.to_string())
}

fn print(keyring: &Keyring, output: Output) -> Result<(), CliError> {
    let keys: Vec<_> = keyring.keys().map(|(id, status)| (id.to_string(), status.to_string())).collect();
    let list: Vec<_> = keys.iter().map(|(id, status)| json!({ "key_id": id, "status": status })).collect();
    output.write_list(&list, || {
        let rows: Vec<Vec<Cell>> =
            keys.into_iter().map(|(id, status)| vec![Cell::from(id), Cell::from(status)]).collect();
        table(output, &["key", "status"], &rows)
    })
}
