//! What commands that call a server have in common.

use std::path::PathBuf;

use oncebox_client::Client;
use oncebox_client::wire::operator::{ListResponse, MessageDetails};

use crate::error::CliError;
use crate::output::{self, Color, Detail, Format, Output, Progress};
use crate::token_file;

/// The default server address.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7420";
/// Maximum number of messages in one page.
const PAGE_MAX: u32 = 1_000;

/// Options of every command.
#[derive(Debug, clap::Args)]
pub(crate) struct GlobalOptions {
    /// Server address: `http://host:port`, `https://host:port` or `unix:/path/to.sock` (default: `ONCEBOX_SERVER`,
    /// otherwise `http://127.0.0.1:7420`).
    #[arg(long, value_name = "URL", global = true, help_heading = "Global options")]
    server: Option<String>,
    /// File with the token for the server (default: `ONCEBOX_TOKEN_FILE`, otherwise that of `oncebox login`).
    #[arg(long, value_name = "FILE", global = true, help_heading = "Global options")]
    token_file: Option<PathBuf>,
    /// File with the certificate authorities to trust, in PEM format (default: `ONCEBOX_CA_FILE`, otherwise those of the
    /// system).
    #[arg(long, value_name = "FILE", global = true, help_heading = "Global options")]
    ca_file: Option<PathBuf>,
    /// Output format (default: table on a terminal, otherwise ndjson).
    #[arg(long, value_name = "FORMAT", global = true, help_heading = "Global options")]
    output: Option<Format>,
    /// Show complete texts, timestamps and byte counts in tables instead of what fits the terminal.
    #[arg(long, global = true, help_heading = "Global options")]
    full: bool,
    /// When to use colours.
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", help_heading = "Global options")]
    color: Color,
}

impl GlobalOptions {
    pub(crate) fn output(&self) -> Output {
        let detail = if self.full { Detail::Full } else { Detail::Fitting };
        Output::new(self.output, self.color).with_detail(detail)
    }

    /// The address of the server.
    pub(crate) fn server(&self) -> String {
        let variable = std::env::var("ONCEBOX_SERVER").ok().filter(|url| !url.is_empty());
        self.server.clone().or(variable).unwrap_or_else(|| DEFAULT_SERVER.to_owned())
    }

    /// The file that contains the token, if one is named.
    pub(crate) fn token_file(&self) -> Option<PathBuf> {
        let variable = std::env::var_os("ONCEBOX_TOKEN_FILE").filter(|path| !path.is_empty());
        self.token_file.clone().or(variable.map(PathBuf::from))
    }

    pub(crate) fn client(&self) -> Result<Client, CliError> {
        let server = self.server();
        let mut builder = Client::builder(&server);
        let token = match self.token_file() {
            Some(file) => Some(token_file::read(&file)?),
            None => token_file::saved(&server)?,
        };
        let variable = std::env::var_os("ONCEBOX_CA_FILE").filter(|path| !path.is_empty());
        if let Some(file) = self.ca_file.clone().or(variable.map(PathBuf::from)) {
            let authorities = std::fs::read(&file);
            builder = builder.authorities(authorities.map_err(|error| {
                CliError::failed(format!(
                    "cannot read the certificate authorities in {}: {error}",
                    file.display()
                ))
            })?);
        }
        if let Some(token) = token {
            builder = builder.token(token);
        }
        let is_name = |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(user) = std::env::var("USER").ok().filter(is_name) {
            builder = builder.actor(user);
        }
        Ok(builder.build()?)
    }
}

/// Fetches pages of a listing until it ends or `limit` messages are collected.
pub(crate) async fn list_all(
    limit: u32,
    page: impl AsyncFn(Option<String>, u32) -> Result<ListResponse, oncebox_client::ClientError>,
) -> Result<Vec<MessageDetails>, CliError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut messages, mut after) = (Vec::new(), None);
    let mut progress = Progress::new();
    loop {
        let remaining = u32::try_from(limit - messages.len()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let ListResponse { messages: page_messages, next } = page(after, remaining).await?;
        messages.extend(page_messages);
        if next.is_none() {
            return Ok(messages);
        }
        if messages.len() >= limit {
            messages.truncate(limit);
            output::note("there may be more: raise --limit");
            return Ok(messages);
        }
        progress.show(&format!("{} messages so far", messages.len()));
        after = next;
    }
}
