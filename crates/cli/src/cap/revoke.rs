//! Revocations: `revoke` and `revocations`.

use std::path::PathBuf;

use oncebox_capability::Token;
use oncebox_client::Client;
use oncebox_client::wire::operator::{RevocationDetails, RevokeRequest};

use crate::error::CliError;
use crate::output::{self, Cell, Output, table};
use crate::{quantity, token_file};

/// Revoke a token with everything attenuated from it, or all tokens of a key.
///
/// It applies at once on the server that is asked, and on other servers of the same store within `auth.cap_cache_ttl`.
#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    #[command(flatten)]
    target: Target,
    /// Refuse also to settle what was received with the tokens.
    #[arg(long)]
    compromised: bool,
    /// Reason, which listings and the audit log show.
    #[arg(long, value_name = "REASON")]
    because: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// File with the token to revoke. The token itself is not sent.
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Nonce of the token to revoke; `oncebox cap inspect` shows it.
    #[arg(long, value_name = "NONCE")]
    nonce: Option<String>,
    /// Id of the key whose tokens to revoke.
    #[arg(long, value_name = "ID")]
    key: Option<String>,
}

pub(super) fn request(revoke: &Revoke) -> Result<RevokeRequest, CliError> {
    let target = match &revoke.target {
        Target { token: Some(file), .. } => {
            let token = Token::parse(&token_file::read(file)?);
            let token = token.map_err(|error| CliError::failed(format!("{}: {error}", file.display())))?;
            format!("nonce:{}", token.identifier().nonce)
        }
        Target { nonce: Some(nonce), .. } => format!("nonce:{nonce}"),
        Target { key, .. } => format!("key:{}", key.as_deref().unwrap_or_default()),
    };
    let Revoke { compromised, because, .. } = revoke;
    Ok(RevokeRequest { target, compromised: *compromised, because: because.clone() })
}

pub(super) async fn run(request: &RevokeRequest, client: Client, output: Output) -> Result<(), CliError> {
    print(&[client.revoke(request).await?], output)
}

pub(super) async fn list(client: Client, output: Output) -> Result<(), CliError> {
    let revocations = client.revocations().await?.revocations;
    if revocations.is_empty() {
        output::note("nothing is revoked");
    }
    print(&revocations, output)
}

fn print(revocations: &[RevocationDetails], output: Output) -> Result<(), CliError> {
    output.write_list(revocations, || {
        let rows: Vec<_> = revocations.iter().map(row).collect();
        table(output, &["revoked", "compromised", "since", "by", "reason"], &rows)
    })
}

fn row(revocation: &RevocationDetails) -> Vec<Cell> {
    let RevocationDetails { target, compromised, since, actor, reason, .. } = revocation;
    let compromised = if *compromised { "yes" } else { "no" };
    let texts =
        [target.clone(), compromised.to_owned(), quantity::with_age(since), actor.clone(), reason.clone()];
    texts.into_iter().map(Cell::from).collect()
}
