//! `oncebox send`: sends a message to the mailbox.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::SendRequest;

use crate::error::CliError;
use crate::output::{Output, Tone, pairs};
use crate::{duration, value};

/// The largest payload that any server configuration accepts.
const PAYLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Send a message to a topic.
///
/// Resending it with the same key has no effect within the deduplication window.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Topic to send to.
    topic: String,
    /// Read the payload from stdin.
    #[arg(value_name = "-", value_parser = ["-"])]
    stdin: Option<String>,
    /// Idempotency key: within the topic's deduplication window, a message with the same key is accepted once.
    #[arg(long, value_name = "KEY", conflicts_with = "random_key")]
    key: Option<String>,
    /// Generate a random key. Running the command again sends another message.
    #[arg(long)]
    random_key: bool,
    /// Payload as text.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "stdin"])]
    data: Option<String>,
    /// Read the payload from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    file: Option<PathBuf>,
    /// Attribute of the message; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::name_and_value)]
    attr: Vec<(String, String)>,
    /// Partition: messages with the same partition are delivered one at a time, in order, across all topics.
    #[arg(long, value_name = "PARTITION")]
    partition: Option<String>,
    /// Shard key: messages of one topic with the same shard key are in the same shard, but are delivered concurrently.
    #[arg(long, value_name = "KEY")]
    shard_key: Option<String>,
    /// Delay before the first delivery, by the server's clock.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    due_in: Option<Duration>,
    /// Make the message a dead letter if it is not handled within this time, by the server's clock; must exceed
    /// --due-in.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires_in: Option<Duration>,
    /// Check that the payload is valid JSON before sending it.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Builds the request; reads the payload from its file or stdin.
    pub(crate) fn message(&self) -> Result<SendRequest, CliError> {
        let idem_key = match (&self.key, self.random_key) {
            (Some(key), _) => key.clone(),
            (None, true) => random_key()?,
            (None, false) => return Err(CliError::Usage(NO_KEY.to_owned())),
        };
        let payload = self.payload()?;
        if self.json && serde_json::from_slice::<serde::de::IgnoredAny>(&payload).is_err() {
            return Err(CliError::failed("the payload is not JSON: fix it, or omit --json"));
        }
        Ok(SendRequest {
            topic: self.topic.clone(),
            idem_key,
            payload_b64: payload.into(),
            attrs: self.attr.iter().cloned().collect(),
            partition: self.partition.clone(),
            shard_key: self.shard_key.clone(),
            due_in_ms: self.due_in.map(duration::millis),
            expires_in_ms: self.expires_in.map(duration::millis),
            ..SendRequest::default()
        })
    }

    fn payload(&self) -> Result<Vec<u8>, CliError> {
        match (&self.data, &self.file, &self.stdin) {
            (Some(text), ..) => Ok(text.clone().into_bytes()),
            (_, Some(path), _) => read_file(path),
            (.., Some(_)) => read(io::stdin().lock(), "stdin"),
            _ => Err(CliError::Usage("no payload: give --data TEXT, --file FILE, or - for stdin".to_owned())),
        }
    }
}

const NO_KEY: &str = "no key: give --key with a value that stays the same when the message is resent, so that it is \
                      accepted once; or --random-key, if resending may create another message";

fn read_file(path: &Path) -> Result<Vec<u8>, CliError> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| CliError::failed(format!("cannot read {name} ({error}): give another file")))?;
    read(file, &name)
}

fn read(source: impl Read, name: &str) -> Result<Vec<u8>, CliError> {
    let mut payload = Vec::new();
    let read = source.take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut payload);
    read.map_err(|error| CliError::failed(format!("cannot read {name} ({error}): give another file")))?;
    if payload.len() as u64 > PAYLOAD_BYTES_MAX {
        return Err(CliError::failed(format!("{name} is larger than 64 MiB: send a smaller payload")));
    }
    Ok(payload)
}

fn random_key() -> Result<String, CliError> {
    let random = getrandom::u64().and_then(|high| Ok((high, getrandom::u64()?)));
    let (high, low) = random
        .map_err(|error| CliError::failed(format!("cannot generate a random key ({error}): give --key")))?;
    Ok(format!("{high:016x}{low:016x}"))
}

pub(crate) async fn run(message: SendRequest, client: Client, output: Output) -> Result<(), CliError> {
    let sent = client.send(&message).await?;
    output.write_one(&sent, || {
        let outcome = if sent.duplicate {
            output.paint(Tone::Warning, "duplicate: the message was accepted before; nothing was added")
        } else {
            output.paint(Tone::Good, "accepted")
        };
        let mut lines = vec![outcome];
        lines.extend(pairs(
            output,
            &[
                ("message", sent.msg_id.clone()),
                ("key", message.idem_key.clone()),
                ("deduplicated until", sent.dedup_until.clone()),
            ],
        ));
        lines
    })
}
