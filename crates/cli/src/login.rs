//! `oncebox login`: saves the token for a server.

use std::fs;

use crate::error::CliError;
use crate::remote::GlobalOptions;
use crate::{output, token_file};

/// Save the token for a server, for all later commands.
///
/// Reads the token from --token-file or standard input, and saves it where only you can read it. There is one token per
/// server address.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Forget the saved token instead.
    #[arg(long)]
    forget: bool,
}

pub(crate) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<(), CliError> {
    let server = global.server();
    let Some(path) = token_file::path_of(&server) else {
        return Err(CliError::failed("no home directory is known: set HOME, or use --token-file each time"));
    };
    let shown = path.display();
    if arguments.forget {
        return match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                output::note(&format!("no token is saved for {server}"));
                Ok(())
            }
            Err(error) => Err(CliError::failed(format!("cannot remove {shown}: {error}"))),
        };
    }
    let token = match global.token_file() {
        Some(file) => token_file::read(&file)?,
        None => token_file::from_stdin()?,
    };
    let parsed = oncebox_capability::Token::parse(&token);
    parsed.map_err(|error| CliError::failed(format!("this is not a token: {error}")))?;
    let directory = path.parent().unwrap_or(&path);
    let written = fs::create_dir_all(directory).and_then(|()| token_file::write_secret(&path, &token));
    written.map_err(|error| CliError::failed(format!("cannot write {shown}: {error}")))?;
    output::note(&format!("saved the token for {server} in {shown}"));
    Ok(())
}
