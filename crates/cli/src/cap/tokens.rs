//! Tokens: `mint`, `attenuate`, `inspect` and `verify`.

use oncebox_capability::{Caveat, Keyring, Nonce, Token, TokenError};
use serde_json::json;

use super::caveats::Caveats;
use super::key_file::KeyFile;
use super::random;
use crate::error::CliError;
use crate::output::{self, Output};
use crate::remote::GlobalOptions;
use crate::{quantity, token_file};

/// Make a token with the active key, and write it to standard output.
#[derive(Debug, clap::Args)]
pub(super) struct Mint {
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    caveats: Caveats,
}

/// Limit a token further, and write the result to standard output.
///
/// Reads the token from --token-file or standard input. Needs neither a key nor a server.
#[derive(Debug, clap::Args)]
pub(super) struct Attenuate {
    #[command(flatten)]
    caveats: Caveats,
}

/// Show what a token says.
///
/// Reads it from --token-file or standard input. Its signature is not verified.
#[derive(Debug, clap::Args)]
pub(super) struct Inspect {}

/// Verify the signature of a token, that it is understood, and that it has not expired.
///
/// Reads it from --token-file or standard input. Revocations are not checked.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    #[command(flatten)]
    key_file: KeyFile,
}

pub(super) fn mint(mint: &Mint) -> Result<(), CliError> {
    if mint.caveats.valid_for.is_none() {
        return Err(CliError::Usage(
            "--for is missing: every token needs an end, such as `--for 30d`".to_owned(),
        ));
    }
    let keyring = mint.key_file.read()?;
    let token =
        keyring.mint(Nonce::new(random::bytes()?), &mint.caveats.all()?).map_err(|error| failed(&error))?;
    write(&token)
}

/// A token that may do everything, for operators.
pub(crate) fn operator_token(keyring: &Keyring, days: u64) -> Result<String, CliError> {
    let expires = quantity::unix_seconds() + days * 24 * 60 * 60;
    let caveats = ["name = operator".to_owned(), format!("expires = {expires}")];
    let caveats = caveats.map(|text| Caveat::parse(&text).expect("caveats in their canonical form"));
    let token = keyring.mint(Nonce::new(random::bytes()?), &caveats).map_err(|error| failed(&error))?;
    Ok(format!("{}\n", token.to_text()))
}

pub(super) fn attenuate(attenuate: &Attenuate, global: &GlobalOptions) -> Result<(), CliError> {
    let caveats = attenuate.caveats.all()?;
    if caveats.is_empty() {
        return Err(CliError::Usage("nothing limits the token further: add flags such as --op".to_owned()));
    }
    let token = caveats.iter().try_fold(read(global)?, |token, caveat| token.attenuate(caveat));
    write(&token.map_err(|error| failed(&error))?)
}

pub(super) fn inspect(global: &GlobalOptions, output: Output) -> Result<(), CliError> {
    let token = read(global)?;
    show(&token, output)
}

pub(super) fn verify(verify: &Verify, global: &GlobalOptions, output: Output) -> Result<(), CliError> {
    let token = read(global)?;
    let keyring = verify.key_file.read()?;
    let verified = keyring.verify(&token).map_err(|refusal| CliError::Refused(refusal.to_string()))?;
    if verified.ends_in(quantity::unix_seconds()) == 0 {
        return Err(CliError::Refused("the token has expired: get a new token".to_owned()));
    }
    output::note("the signature is good");
    show(&token, output)
}

/// The token of --token-file, otherwise of standard input.
pub(super) fn read(global: &GlobalOptions) -> Result<Token, CliError> {
    let text = match global.token_file() {
        Some(file) => token_file::read(&file)?,
        None => token_file::from_stdin()?,
    };
    Token::parse(&text).map_err(|error| failed(&error))
}

fn show(token: &Token, output: Output) -> Result<(), CliError> {
    let identifier = token.identifier();
    let (key, nonce) = (identifier.key.to_string(), identifier.nonce.to_string());
    let caveats: Vec<String> = token.caveats().map(|(text, _)| text.to_owned()).collect();
    let unknown: Vec<String> =
        token.caveats().filter(|(_, caveat)| caveat.is_err()).map(|(text, _)| text.to_owned()).collect();
    let json = json!({ "key_id": key, "nonce": nonce, "caveats": caveats, "not_understood": unknown });
    output.prose_by_default().write_one(&json, || {
        let mut lines = vec![format!("key    {key}"), format!("nonce  {nonce}")];
        lines.extend(caveats.iter().map(|caveat| format!("caveat {caveat}")));
        lines.extend(
            unknown.iter().map(|caveat| format!("not understood, so the token is refused: {caveat}")),
        );
        lines
    })
}

/// Writes a token for programs: nothing but its text.
fn write(token: &Token) -> Result<(), CliError> {
    output::write_bytes(format!("{}\n", token.to_text()).as_bytes())
}

fn failed(error: &TokenError) -> CliError {
    CliError::failed(error.to_string())
}
