//! `oncebox recv`: receives messages from the mailbox.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::{MessageEnvelope, RecvRequest, SettleOp};

use crate::error::CliError;
use crate::output::{self, Format, Output, Tone, pairs};
use crate::settle;
use crate::{duration, quantity, text};

/// Delay before the next attempt after a failure, with `--follow`.
const FOLLOW_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Default of `--wait` with `--follow`.
const FOLLOW_WAIT: Duration = Duration::from_secs(30);

/// Maximum number of characters of the host name in the default worker name.
const HOST_CHARS_MAX: usize = 100;

/// Receive messages from a topic.
///
/// Received messages are hidden from other receivers until they are acknowledged or their visibility timeout ends.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// Topic to receive from.
    topic: String,
    /// Maximum number of messages to receive.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    max: u32,
    /// How long to wait for the first message (max 60s; default: 0s, with --follow 30s).
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// How long the messages are hidden from other receivers (default: the topic's visibility timeout, 30s unless
    /// configured).
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    visibility: Option<Duration>,
    /// Name of this receiver, shown to operators with the messages that it holds (default: host and process id).
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Acknowledge messages as soon as they are written.
    #[arg(long)]
    ack: bool,
    /// Keep receiving until interrupted, also across server restarts. --output json is treated as ndjson.
    #[arg(long)]
    follow: bool,
    /// Write only the payload, byte for byte; with --max or --follow, a newline follows each payload.
    #[arg(long)]
    raw: bool,
    /// With --raw, write a NUL byte instead of a newline after each payload, for payloads that contain newlines.
    #[arg(long, requires = "raw")]
    null: bool,
}

impl Arguments {
    /// What separates payloads in raw output.
    fn payload_terminator(&self) -> &'static [u8] {
        match (self.null, self.follow || self.max > 1) {
            (true, _) => b"\0",
            (false, true) => b"\n",
            (false, false) => b"",
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    let default_wait = if arguments.follow { FOLLOW_WAIT } else { Duration::ZERO };
    // The names of these fields in errors of the server become flags in `flag_names.rs`.
    let request = RecvRequest {
        topic: arguments.topic.clone(),
        visibility_ms: arguments.visibility.map(duration::millis),
        max_messages: Some(arguments.max),
        wait_ms: Some(duration::millis(arguments.wait.unwrap_or(default_wait))),
        worker: Some(arguments.worker.clone().unwrap_or_else(default_worker_name)),
        ..RecvRequest::default()
    };
    let (mut connected, mut retrying, mut known_paused) = (false, false, false);
    loop {
        let (envelopes, paused) = match client.recv(&request).await.map_err(CliError::from) {
            Ok(received) => (received.messages, received.paused),
            // A server that was reached before may come back.
            Err(CliError::Retryable(text)) if arguments.follow && connected => {
                if !retrying {
                    output::note(&format!("{text}; retrying"));
                }
                retrying = true;
                tokio::time::sleep(FOLLOW_RETRY_DELAY).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        if arguments.follow && paused && !known_paused {
            output::note("the topic is paused: waiting until it is resumed");
        }
        (connected, retrying, known_paused) = (true, false, paused);
        write(arguments, &envelopes, output)?;
        if arguments.ack && !envelopes.is_empty() {
            acknowledge(&envelopes, &client, arguments.follow).await?;
        }
        if !arguments.follow {
            if paused {
                output::note("the topic is paused: see `oncebox pause`");
            } else if envelopes.is_empty() {
                let waited = arguments.wait.is_some_and(|wait| !wait.is_zero());
                output::note(if waited {
                    "no message arrived"
                } else {
                    "no message is ready: use --wait to wait for one"
                });
            }
            return Ok(());
        }
    }
}

/// The printable characters of the host name, and the process id.
fn default_worker_name() -> String {
    let system = rustix::system::uname();
    let host: String = system
        .nodename()
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_graphic)
        .take(HOST_CHARS_MAX)
        .collect();
    format!("{host}:{}", std::process::id())
}

fn write(arguments: &Arguments, envelopes: &[MessageEnvelope], output: Output) -> Result<(), CliError> {
    if arguments.raw {
        let terminator = arguments.payload_terminator();
        return envelopes
            .iter()
            .try_for_each(|envelope| output::write_bytes(&[&envelope.payload_b64.0, terminator].concat()));
    }
    let human = |envelope| block(envelope, arguments.ack, output);
    if arguments.follow || output.format() == Format::Table {
        let output =
            if output.format() == Format::Json { output.with_format(Format::Ndjson) } else { output };
        return envelopes.iter().try_for_each(|envelope| output.write_one(envelope, || human(envelope)));
    }
    output.write_list(envelopes, Vec::new)
}

/// Acknowledges messages that were written. With `--follow`, a failure is only noted: the messages are redelivered.
async fn acknowledge(envelopes: &[MessageEnvelope], client: &Client, follow: bool) -> Result<(), CliError> {
    let items = settle::items(SettleOp::Ack, envelopes.iter().map(|envelope| envelope.receipt.as_str()));
    let settled = settle::settle_all(client, items)
        .await
        .and_then(|outcomes| settle::first_error(&outcomes).map_or(Ok(()), Err));
    match settled {
        Err(error @ (CliError::Retryable(_) | CliError::Refused(_))) if follow => {
            let why = error.text().unwrap_or_default();
            output::note(&format!("{why}; messages that were written may be redelivered"));
            Ok(())
        }
        settled => settled,
    }
}

fn block(envelope: &MessageEnvelope, acknowledged: bool, output: Output) -> Vec<String> {
    let mut fields = vec![
        ("message", envelope.msg_id.clone()),
        ("key", text::escape(&envelope.idem_key)),
        ("accepted", quantity::with_age(&envelope.ts)),
        ("delivery", envelope.attempt.to_string()),
    ];
    if !acknowledged {
        fields.push(("held until", quantity::with_age(&envelope.visible_until)));
        fields.push(("receipt", envelope.receipt.clone()));
    }
    for (name, value) in &envelope.attrs {
        fields.push(("attribute", text::escape(&format!("{name}={value}"))));
    }
    fields.push(("payload", text::payload(&envelope.payload_b64)));
    let mut lines = vec![output.paint(Tone::Good, &text::escape(&envelope.topic))];
    lines.extend(pairs(output, &fields));
    lines.push(String::new());
    lines
}
