//! `oncebox recv`: takes messages out of the mailbox.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::{Envelope, Op, Recv};

use crate::output::{self, Format, Output, Tone, pairs};
use crate::settle;
use crate::trouble::Trouble;
use crate::{duration, quantity, text};

/// After a failure, what is followed is tried again so much later.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// So long one call waits for messages that are followed, unless told otherwise.
const FOLLOW_WAIT: Duration = Duration::from_secs(30);

/// Characters of a host's name that are shown, at most.
const HOST_CHARS_MAX: usize = 100;

/// Receives messages. They are hidden from other receivers until they are acknowledged or their visibility ends.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// Where from.
    topic: String,
    /// So many at once, at most.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    max: u32,
    /// Waits so long for the first message, 60s at most. If not given: 0s, with --follow 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// How long it is hidden from others. If not given, what the topic is set to: 30s by default.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    visibility: Option<Duration>,
    /// What this receiver calls itself, shown to operators beside what it holds. If not given: the host and the process.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Acknowledges messages as soon as they are written.
    #[arg(long)]
    ack: bool,
    /// Goes on until it is interrupted, also over a restart of the server. With --output json, as with ndjson.
    #[arg(long)]
    follow: bool,
    /// Writes nothing but the payloads: one byte for byte; with --max or --follow, each with a newline after it.
    #[arg(long)]
    raw: bool,
    /// With --raw: a zero byte after each payload, for payloads that have newlines in them.
    #[arg(long, requires = "raw")]
    null: bool,
}

impl Arguments {
    /// What is written after each payload, so that they can be told apart.
    fn end_of_payload(&self) -> &'static [u8] {
        match (self.null, self.follow || self.max > 1) {
            (true, _) => b"\0",
            (false, true) => b"\n",
            (false, false) => b"",
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    let usual = if arguments.follow { FOLLOW_WAIT } else { Duration::ZERO };
    let wish = Recv {
        topic: arguments.topic.clone(),
        visibility_ms: arguments.visibility.map(duration::millis),
        max_messages: Some(arguments.max),
        wait_ms: Some(duration::millis(arguments.wait.unwrap_or(usual))),
        worker: Some(arguments.worker.clone().unwrap_or_else(this_process)),
        ..Recv::default()
    };
    let (mut reached, mut patient) = (false, false);
    loop {
        let envelopes = match client.recv(&wish).await.map_err(Trouble::from) {
            Ok(received) => received.messages,
            // Who was there once may come back.
            Err(Trouble::Later(text)) if arguments.follow && reached => {
                if !patient {
                    output::note(&format!("{text}; trying again"));
                }
                patient = true;
                tokio::time::sleep(FOLLOW_PAUSE).await;
                continue;
            }
            Err(trouble) => return Err(trouble),
        };
        (reached, patient) = (true, false);
        write(arguments, &envelopes, output)?;
        if arguments.ack && !envelopes.is_empty() {
            acknowledge(&envelopes, &client, arguments.follow).await?;
        }
        if !arguments.follow {
            if envelopes.is_empty() {
                let waited = arguments.wait.is_some_and(|wait| !wait.is_zero());
                output::note(if waited {
                    "nothing came"
                } else {
                    "nothing is ready: give --wait to wait for it"
                });
            }
            return Ok(());
        }
    }
}

/// The host and the process, as far as they are printable.
fn this_process() -> String {
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

fn write(arguments: &Arguments, envelopes: &[Envelope], output: Output) -> Result<(), Trouble> {
    if arguments.raw {
        let end = arguments.end_of_payload();
        return envelopes
            .iter()
            .try_for_each(|envelope| output::write_bytes(&[&envelope.payload_b64.0, end].concat()));
    }
    let people = |envelope| block(envelope, arguments.ack, output);
    if arguments.follow || output.format() == Format::Table {
        let output = if output.format() == Format::Json { output.with(Format::Ndjson) } else { output };
        return envelopes.iter().try_for_each(|envelope| output.one(envelope, || people(envelope)));
    }
    output.many(envelopes, Vec::new)
}

/// What was written is handled. What cannot be acknowledged comes again.
async fn acknowledge(envelopes: &[Envelope], client: &Client, follow: bool) -> Result<(), Trouble> {
    let items = settle::items(Op::Ack, envelopes.iter().map(|envelope| envelope.receipt.as_str()));
    let settled =
        settle::all(client, items).await.and_then(|outcomes| settle::trouble(&outcomes).map_or(Ok(()), Err));
    match settled {
        Err(trouble @ (Trouble::Later(_) | Trouble::Refused(_))) if follow => {
            let why = trouble.text().unwrap_or_default();
            output::note(&format!("{why}; what was written may come again"));
            Ok(())
        }
        settled => settled,
    }
}

fn block(envelope: &Envelope, acknowledged: bool, output: Output) -> Vec<String> {
    let mut fields = vec![
        ("message", envelope.msg_id.clone()),
        ("key", text::plain(&envelope.idem_key)),
        ("accepted", quantity::with_age(&envelope.ts)),
        ("delivery", envelope.attempt.to_string()),
    ];
    if !acknowledged {
        fields.push(("held until", quantity::with_age(&envelope.visible_until)));
        fields.push(("receipt", envelope.receipt.clone()));
    }
    for (name, value) in &envelope.attrs {
        fields.push(("attribute", text::plain(&format!("{name}={value}"))));
    }
    fields.push(("payload", text::payload(&envelope.payload_b64)));
    let mut lines = vec![output.paint(Tone::Good, &text::plain(&envelope.topic))];
    lines.extend(pairs(output, &fields));
    lines.push(String::new());
    lines
}
