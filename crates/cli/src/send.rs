//! `oncebox send`: puts a message into the mailbox.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::Send;

use crate::output::{Output, Tone, pairs};
use crate::trouble::Trouble;
use crate::{duration, word};

/// No payload is larger, whatever the server is set to.
const PAYLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Sends a message. With the same key again, it is taken in once.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to.
    topic: String,
    /// Reads the payload from stdin.
    #[arg(value_name = "-", value_parser = ["-"])]
    stdin: Option<String>,
    /// Within the replay window of its topic, the same key is taken in once.
    #[arg(long, value_name = "KEY", conflicts_with = "random_key")]
    key: Option<String>,
    /// Makes up a key. Sent again, the message is another one.
    #[arg(long)]
    random_key: bool,
    /// The payload.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "stdin"])]
    data: Option<String>,
    /// Reads the payload from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    file: Option<PathBuf>,
    /// A name and a value beside the payload; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = word::pair)]
    attr: Vec<(String, String)>,
    /// Messages of one topic with the same partition are delivered one at a time, in order.
    #[arg(long, value_name = "PARTITION")]
    partition: Option<String>,
    /// Chooses the shard: messages of one topic with the same key are in the same shard, and are delivered side by side.
    #[arg(long, value_name = "KEY")]
    shard_key: Option<String>,
    /// Not delivered before this much time has passed, by the server's clock.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    due_in: Option<Duration>,
    /// A dead letter if it is not handled within this time, by the server's clock; more than --due-in.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires_in: Option<Duration>,
    /// Checks that the payload is JSON before it is sent.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The message. Reads what it is made of, so there is nothing to wait for afterwards.
    pub(crate) fn message(&self) -> Result<Send, Trouble> {
        let idem_key = match (&self.key, self.random_key) {
            (Some(key), _) => key.clone(),
            (None, true) => random_key()?,
            (None, false) => return Err(Trouble::Misused(NO_KEY.to_owned())),
        };
        let payload = self.payload()?;
        if self.json && serde_json::from_slice::<serde::de::IgnoredAny>(&payload).is_err() {
            return Err(Trouble::failed("the payload is not JSON: fix it, or leave out --json"));
        }
        Ok(Send {
            topic: self.topic.clone(),
            idem_key,
            payload_b64: payload.into(),
            attrs: self.attr.iter().cloned().collect(),
            partition: self.partition.clone(),
            shard_key: self.shard_key.clone(),
            due_in_ms: self.due_in.map(duration::millis),
            expires_in_ms: self.expires_in.map(duration::millis),
            ..Send::default()
        })
    }

    fn payload(&self) -> Result<Vec<u8>, Trouble> {
        match (&self.data, &self.file, &self.stdin) {
            (Some(text), ..) => Ok(text.clone().into_bytes()),
            (_, Some(path), _) => read_file(path),
            (.., Some(_)) => read(io::stdin().lock(), "stdin"),
            _ => {
                Err(Trouble::Misused("no payload: give --data TEXT, --file FILE, or - for stdin".to_owned()))
            }
        }
    }
}

const NO_KEY: &str = "no --key: give one that is the same when the same message is sent again, so that it is taken in \
                      once; or --random-key, if a repeat may be another message";

fn read_file(path: &Path) -> Result<Vec<u8>, Trouble> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| Trouble::failed(format!("cannot read {name} ({error}): give another file")))?;
    read(file, &name)
}

fn read(source: impl Read, name: &str) -> Result<Vec<u8>, Trouble> {
    let mut payload = Vec::new();
    let read = source.take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut payload);
    read.map_err(|error| Trouble::failed(format!("cannot read {name} ({error}): give another file")))?;
    if payload.len() as u64 > PAYLOAD_BYTES_MAX {
        return Err(Trouble::failed(format!("{name} has more than 64 MiB: send less")));
    }
    Ok(payload)
}

fn random_key() -> Result<String, Trouble> {
    let random = getrandom::u64().and_then(|high| Ok((high, getrandom::u64()?)));
    let (high, low) =
        random.map_err(|error| Trouble::failed(format!("no randomness ({error}): give --key")))?;
    Ok(format!("{high:016x}{low:016x}"))
}

pub(crate) async fn run(message: Send, client: Client, output: Output) -> Result<(), Trouble> {
    let sent = client.send(&message).await?;
    output.one(&sent, || {
        let outcome = if sent.duplicate {
            output.paint(Tone::Odd, "a duplicate: it came before, and nothing was added")
        } else {
            output.paint(Tone::Good, "accepted")
        };
        let mut lines = vec![outcome];
        lines.extend(pairs(
            output,
            &[
                ("message", sent.msg_id.clone()),
                ("key", message.idem_key.clone()),
                ("repeats known until", sent.dedup_until.clone()),
            ],
        ));
        lines
    })
}
