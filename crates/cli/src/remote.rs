//! What commands that speak to a server share.

use oncebox_client::Client;
use oncebox_client::wire::operator::{Message, Page};

use crate::output::{self, Color, Detail, Format, Output, Progress};
use crate::trouble::Trouble;

/// Where a server usually is.
const SERVER: &str = "http://127.0.0.1:7420";
/// Messages that one page has, at most.
const PAGE_MAX: u32 = 1_000;

/// What every command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Global {
    /// Where the server is: `http://host:port` or `unix:/path/to.sock`. If not given, `ONCEBOX_SERVER`, else
    /// `http://127.0.0.1:7420`.
    #[arg(long, value_name = "URL", global = true, help_heading = "Global options")]
    server: Option<String>,
    /// How results are written. If not given, a table on a terminal, and ndjson for whatever else reads them.
    #[arg(long, value_name = "FORMAT", global = true, help_heading = "Global options")]
    output: Option<Format>,
    /// Tables show all of a value: whole texts, moments and bytes. If not given, what fits the terminal.
    #[arg(long, global = true, help_heading = "Global options")]
    full: bool,
    /// Whether colours are used.
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", help_heading = "Global options")]
    color: Color,
}

impl Global {
    pub(crate) fn output(&self) -> Output {
        let detail = if self.full { Detail::Full } else { Detail::Fitting };
        Output::new(self.output, self.color).with_detail(detail)
    }

    pub(crate) fn client(&self) -> Result<Client, Trouble> {
        let told = std::env::var("ONCEBOX_SERVER").ok().filter(|url| !url.is_empty());
        let server = self.server.clone().or(told).unwrap_or_else(|| SERVER.to_owned());
        let mut builder = Client::builder(&server);
        let is_name = |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(user) = std::env::var("USER").ok().filter(is_name) {
            builder = builder.actor(user);
        }
        Ok(builder.build()?)
    }
}

/// Follows a listing until it has `limit` messages or ends.
pub(crate) async fn gather(
    limit: u32,
    page: impl AsyncFn(Option<String>, u32) -> Result<Page, oncebox_client::Error>,
) -> Result<Vec<Message>, Trouble> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut messages, mut after) = (Vec::new(), None);
    let mut progress = Progress::new();
    loop {
        let room = u32::try_from(limit - messages.len()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let Page { messages: came, next } = page(after, room).await?;
        messages.extend(came);
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
