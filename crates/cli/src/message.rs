//! Lists and details of messages, for operators.

use oncebox_client::wire::operator::{LeaseDetails, MessageDetails, StateName, SweepResponse};

use crate::error::CliError;
use crate::output::{self, Cell, Output, Tone, pairs, table};
use crate::{quantity, terminal, text, value};

/// Prints a list of messages.
pub(crate) fn list(messages: &[MessageDetails], output: Output) -> Result<(), CliError> {
    if messages.is_empty() {
        output::note("no message matches");
    }
    output.write_list(messages, || {
        let rows: Vec<_> = messages.iter().map(|message| row(message, output)).collect();
        let mut lines =
            table(output, &["message", "topic", "key", "state", "fails", "accepted"], &rows).into_iter();
        let mut output_lines: Vec<_> = lines.next().into_iter().collect();
        for (message, line) in messages.iter().zip(lines) {
            output_lines.push(line);
            output_lines.extend(detail_line(message, output));
        }
        output_lines
    })
}

fn row(message: &MessageDetails, output: Output) -> Vec<Cell> {
    let MessageDetails { msg_id, source, topic, id, attempts, accepted_at, .. } = message;
    let fails = if output.columns().is_some() { attempts.to_string() } else { failures(message) };
    vec![
        Cell::from(msg_id).whole(),
        Cell::from(topic.as_ref().unwrap_or(source)),
        Cell::from(id),
        Cell::toned(tone(message), short_state(message)),
        Cell::from(fails),
        Cell::from(output.timestamp(accepted_at)).whole(),
    ]
}

/// The line below a message: its holder, how often it was redriven, and its last error.
fn detail_line(message: &MessageDetails, output: Output) -> Option<String> {
    let redrives = match message.redrives {
        0 => None,
        1 => Some("redriven once".to_owned()),
        redrives => Some(format!("redriven {redrives} times")),
    };
    let redrives = redrives.filter(|_| output.columns().is_some());
    let error = message.last_error.as_deref().map(|error| format!("last error: {}", text::escape(error)));
    let named = message.lease.as_ref().filter(|lease| lease.worker.is_some());
    let held = named.map(|lease| {
        format!("held by {}, ends {}", text::escape(&holder(lease)), output.timestamp(&lease.until))
    });
    let details: Vec<_> = held.into_iter().chain(redrives).chain(error).collect();
    let text = format!("  {}", details.join("; "));
    let text = output.columns().map_or_else(|| text.clone(), |columns| terminal::truncate(&text, columns));
    (!details.is_empty()).then(|| output.paint(Tone::Dim, &text))
}

/// The state of a message in one word.
fn short_state(message: &MessageDetails) -> String {
    match (&message.reason, &message.lease) {
        (Some(reason), _) => value::wire_name(reason),
        (None, Some(_)) => "held".to_owned(),
        (None, None) => value::wire_name(message.state),
    }
}

/// Failures since the last redrive, and the number of redrives.
fn failures(message: &MessageDetails) -> String {
    match message.redrives {
        0 => message.attempts.to_string(),
        1 => format!("{} (1 redrive)", message.attempts),
        redrives => format!("{} ({redrives} redrives)", message.attempts),
    }
}

fn tone(message: &MessageDetails) -> Tone {
    match message.state {
        StateName::Done => Tone::Good,
        StateName::Dead => Tone::Bad,
        _ if message.attempts > 0 => Tone::Warning,
        _ => Tone::Plain,
    }
}

fn state(message: &MessageDetails) -> String {
    match (&message.reason, &message.lease) {
        (Some(reason), _) => format!("{}: {}", value::wire_name(message.state), value::wire_name(reason)),
        (None, Some(lease)) => match &lease.worker {
            Some(worker) => format!("{}, held by {}", value::wire_name(message.state), text::escape(worker)),
            None => format!("{}, held", value::wire_name(message.state)),
        },
        (None, None) => value::wire_name(message.state),
    }
}

/// Prints all fields of one message.
pub(crate) fn show(message: &MessageDetails, output: Output) -> Result<(), CliError> {
    output.write_one(message, || {
        let fields = fields(message);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.clone())).collect();
        pairs(output, &fields)
    })
}

fn fields(message: &MessageDetails) -> Vec<(&'static str, String)> {
    let escaped = |text: &String| text::escape(text);
    let aged = |timestamp: &Option<String>| timestamp.as_deref().map(quantity::with_age);
    let mut fields = vec![
        ("message", message.msg_id.clone()),
        ("uid", message.uid.clone()),
        ("namespace", value::wire_name(message.namespace)),
        ("source", escaped(&message.source)),
        ("key", escaped(&message.id)),
        ("state", state(message)),
        ("deliveries", message.deliveries.to_string()),
        ("failures", attempts(message)),
        ("redrives", message.redrives.to_string()),
        ("accepted", quantity::with_age(&message.accepted_at)),
        ("key last seen", quantity::with_age(&message.last_seen_at)),
    ];
    let holder = |lease: &LeaseDetails| format!("{} until {}", escaped(&holder(lease)), lease.until);
    let (held_until, was_held_until) = if message.keyed {
        (message.dedup_until.clone(), None)
    } else {
        (None, Some(message.dedup_until.clone().unwrap_or_else(|| "an unknown time".to_owned())))
    };
    let optional = [
        ("topic", message.topic.as_ref().map(escaped)),
        ("partition", message.partition.as_ref().map(escaped)),
        ("shard", message.shard.map(|shard| shard.to_string())),
        ("held by", message.lease.as_ref().map(holder)),
        ("last held by", message.last_lease.as_ref().map(holder)),
        ("not before", aged(&message.due_at)),
        ("next attempt", aged(&message.retry_at)),
        ("expires", aged(&message.expires_at)),
        ("finished", aged(&message.finished_at)),
        ("last error", message.last_error.as_ref().map(escaped)),
        ("key held until", held_until),
        ("key was held until", was_held_until),
        ("earlier messages", (!message.older.is_empty()).then(|| message.older.join(" "))),
        ("correlation", message.corr_id.as_ref().map(escaped)),
        ("causation", message.causation_id.as_ref().map(escaped)),
        ("tenant", message.tenant.as_ref().map(escaped)),
        ("content hash", message.content_hash.clone()),
        ("payload bytes", message.payload_bytes.map(|bytes| bytes.to_string())),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let attributes = message.attrs.iter();
    fields.extend(attributes.map(|(name, value)| ("attribute", text::escape(&format!("{name}={value}")))));
    if let Some(payload) = &message.payload_b64 {
        fields.push(("payload", text::payload(payload)));
    }
    fields
}

/// The name of a holder: the worker name that it gave, otherwise the owner id.
pub(crate) fn holder(lease: &LeaseDetails) -> String {
    lease.worker.clone().unwrap_or_else(|| lease.owner.clone())
}

fn attempts(message: &MessageDetails) -> String {
    let limit = message.attempts_max.map(|limit| format!(" of {limit}")).unwrap_or_default();
    format!("{}{limit}", message.attempts)
}

/// Prints the result of a purge; `done` labels the number of changed messages.
pub(crate) fn print_sweep(swept: &SweepResponse, done: &str, output: Output) -> Result<(), CliError> {
    if swept.more {
        output::note("there may be more: run the command again, or raise --limit");
    }
    output.write_one(swept, || {
        let changed = if swept.dry_run { "none (dry run)".to_owned() } else { swept.changed.to_string() };
        pairs(output, &[("matched", swept.matched.to_string()), (done, changed)])
    })
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::operator::MessageDetails;

    use super::{failures, fields, row};
    use crate::output::{Color, Format, Output};

    fn message(more: &str) -> MessageDetails {
        let text = format!(
            r#"{{"msg_id":"m","uid":"u","namespace":"mailbox","source":"t","id":"k\u001b","state":"dead","reason":"expired",
            "attempts":2,"attempts_max":5,"deliveries":3,"redrives":1,"accepted_at":"T1","last_seen_at":"T2","keyed":false{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn unknown_fields_are_left_out() {
        let fields = fields(&message(r#","payload_b64":"aGk=","last_error":"no\nway""#));
        for field in [
            ("state", "dead: expired"),
            ("key", r"k\u{1b}"),
            ("failures", "2 of 5"),
            ("redrives", "1"),
            ("key was held until", "an unknown time"),
            ("last error", r"no\nway"),
            ("payload", "hi"),
        ] {
            assert!(fields.contains(&(field.0, field.1.to_owned())), "{field:?} {fields:?}");
        }
        assert!(!fields.iter().any(|(name, _)| *name == "topic"), "unknown fields are left out");
    }

    #[test]
    fn the_current_or_last_holder_is_named() {
        let lease = r#","state":"processing","lease":{"owner":"o","worker":"w\u001b","until":"T5"}"#;
        let held: MessageDetails = serde_json::from_str(
            &serde_json::to_string(&message(""))
                .unwrap()
                .replace(r#","state":"dead","reason":"expired""#, lease),
        )
        .unwrap();
        let shown = fields(&held);
        assert!(shown.contains(&("held by", r"w\u{1b} until T5".to_owned())), "{shown:?}");
        assert!(shown.contains(&("state", r"processing, held by w\u{1b}".to_owned())), "{shown:?}");
        let last = message(r#","last_lease":{"owner":"o","until":"T5"}"#);
        assert!(fields(&last).contains(&("last held by", "o until T5".to_owned())));
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_header() {
        assert_eq!(row(&message(""), Output::new(Some(Format::Table), Color::Never)).len(), 6);
    }

    #[test]
    fn failures_include_the_number_of_redrives() {
        assert_eq!(failures(&message("")), "2 (1 redrive)");
        assert_eq!(failures(&MessageDetails { redrives: 3, ..message("") }), "2 (3 redrives)");
        assert_eq!(failures(&MessageDetails { redrives: 0, ..message("") }), "2");
    }
}
