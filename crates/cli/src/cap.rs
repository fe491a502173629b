//! `oncebox cap`: keys, and capabilities (tokens).

mod caveats;
mod key_file;
mod keys;
mod random;
mod revoke;
mod tokens;

pub(crate) use keys::first_keyring;
pub(crate) use tokens::operator_token;

use crate::error::CliError;
use crate::remote::GlobalOptions;
use crate::{flag_names, with_server};

/// Make keys and tokens, limit, show, verify and revoke them.
///
/// All but `revoke` and `revocations` work without a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Keygen(keys::Keygen),
    Rotate(keys::Rotate),
    KeyStatus(keys::KeyStatus),
    Mint(tokens::Mint),
    Attenuate(tokens::Attenuate),
    Inspect(tokens::Inspect),
    Verify(tokens::Verify),
    Revoke(revoke::Revoke),
    /// List the revocations that the server knows.
    Revocations,
}

pub(crate) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<(), CliError> {
    let output = global.output();
    match &arguments.command {
        Command::Keygen(keygen) => keys::keygen(keygen, output),
        Command::Rotate(rotate) => keys::rotate(rotate, output),
        Command::KeyStatus(status) => keys::set_status(status, output),
        Command::Mint(mint) => tokens::mint(mint),
        Command::Attenuate(attenuate) => tokens::attenuate(attenuate, global),
        Command::Inspect(_) => tokens::inspect(global, output),
        Command::Verify(verify) => tokens::verify(verify, global, output),
        Command::Revoke(revoke) => {
            let request = revoke::request(revoke)?;
            with_server(global, flag_names::REVOKE, async |client, output| {
                revoke::run(&request, client, output).await
            })
        }
        Command::Revocations => with_server(global, flag_names::NONE, revoke::list),
    }
}
