//! Messages as operators see them.

use oncebox_client::wire::operator::{Lease, Message, State, Swept};

use crate::output::{self, Cell, Output, Tone, pairs, table};
use crate::trouble::Trouble;
use crate::{quantity, terminal, text, word};

/// A list of messages.
pub(crate) fn list(messages: &[Message], output: Output) -> Result<(), Trouble> {
    if messages.is_empty() {
        output::note("no message matches");
    }
    output.many(messages, || {
        let rows: Vec<_> = messages.iter().map(|message| row(message, output)).collect();
        let mut lines =
            table(output, &["message", "topic", "key", "state", "fails", "accepted"], &rows).into_iter();
        let mut all: Vec<_> = lines.next().into_iter().collect();
        for (message, line) in messages.iter().zip(lines) {
            all.push(line);
            all.extend(below(message, output));
        }
        all
    })
}

fn row(message: &Message, output: Output) -> Vec<Cell> {
    let Message { msg_id, source, topic, id, attempts, accepted_at, .. } = message;
    let fails = if output.columns().is_some() { attempts.to_string() } else { failures(message) };
    vec![
        Cell::from(msg_id).whole(),
        Cell::from(topic.as_ref().unwrap_or(source)),
        Cell::from(id),
        Cell::toned(tone(message), brief(message)),
        Cell::from(fails),
        Cell::from(output.moment(accepted_at)).whole(),
    ]
}

/// What stands below its message: who holds it, how often it was redriven, and its last error.
fn below(message: &Message, output: Output) -> Option<String> {
    let redrives = match message.redrives {
        0 => None,
        1 => Some("redriven once".to_owned()),
        redrives => Some(format!("redriven {redrives} times")),
    };
    let redrives = redrives.filter(|_| output.columns().is_some());
    let error = message.last_error.as_deref().map(|error| format!("last error: {}", text::plain(error)));
    let named = message.lease.as_ref().filter(|lease| lease.worker.is_some());
    let held = named.map(|lease| {
        format!("held by {}, ends {}", text::plain(&holder(lease)), output.moment(&lease.until))
    });
    let told: Vec<_> = held.into_iter().chain(redrives).chain(error).collect();
    let text = format!("  {}", told.join("; "));
    let text = output.columns().map_or_else(|| text.clone(), |columns| terminal::cut(&text, columns));
    (!told.is_empty()).then(|| output.paint(Tone::Quiet, &text))
}

/// Where a message stands, in one word.
fn brief(message: &Message) -> String {
    match (&message.reason, &message.lease) {
        (Some(reason), _) => word::of(reason),
        (None, Some(_)) => "held".to_owned(),
        (None, None) => word::of(message.state),
    }
}

/// Failures since the last redrive, and how many redrives there were.
fn failures(message: &Message) -> String {
    match message.redrives {
        0 => message.attempts.to_string(),
        1 => format!("{} (1 redrive)", message.attempts),
        redrives => format!("{} ({redrives} redrives)", message.attempts),
    }
}

fn tone(message: &Message) -> Tone {
    match message.state {
        State::Done => Tone::Good,
        State::Dead => Tone::Bad,
        _ if message.attempts > 0 => Tone::Odd,
        _ => Tone::Plain,
    }
}

fn standing(message: &Message) -> String {
    match (&message.reason, &message.lease) {
        (Some(reason), _) => format!("{}: {}", word::of(message.state), word::of(reason)),
        (None, Some(lease)) => match &lease.worker {
            Some(worker) => format!("{}, held by {}", word::of(message.state), text::plain(worker)),
            None => format!("{}, held", word::of(message.state)),
        },
        (None, None) => word::of(message.state),
    }
}

/// Everything about one message.
pub(crate) fn show(message: &Message, output: Output) -> Result<(), Trouble> {
    output.one(message, || {
        let fields = fields(message);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.clone())).collect();
        pairs(output, &fields)
    })
}

fn fields(message: &Message) -> Vec<(&'static str, String)> {
    let plain = |text: &String| text::plain(text);
    let aged = |moment: &Option<String>| moment.as_deref().map(quantity::with_age);
    let mut fields = vec![
        ("message", message.msg_id.clone()),
        ("uid", message.uid.clone()),
        ("namespace", word::of(message.namespace)),
        ("source", plain(&message.source)),
        ("key", plain(&message.id)),
        ("state", standing(message)),
        ("deliveries", message.deliveries.to_string()),
        ("failures", attempts(message)),
        ("redrives", message.redrives.to_string()),
        ("accepted", quantity::with_age(&message.accepted_at)),
        ("key came last", quantity::with_age(&message.last_seen_at)),
    ];
    let holder = |lease: &Lease| format!("{} until {}", plain(&holder(lease)), lease.until);
    let (known, over) = if message.keyed {
        (message.dedup_until.clone(), None)
    } else {
        (None, Some(message.dedup_until.clone().unwrap_or_else(|| "an unknown time".to_owned())))
    };
    let optional = [
        ("topic", message.topic.as_ref().map(plain)),
        ("partition", message.partition.as_ref().map(plain)),
        ("shard", message.shard.map(|shard| shard.to_string())),
        ("held by", message.lease.as_ref().map(holder)),
        ("held last by", message.last_lease.as_ref().map(holder)),
        ("not before", aged(&message.due_at)),
        ("tried next", aged(&message.retry_at)),
        ("expires", aged(&message.expires_at)),
        ("finished", aged(&message.finished_at)),
        ("last error", message.last_error.as_ref().map(plain)),
        ("key held until", known),
        ("key was held until", over),
        ("older under its key", (!message.older.is_empty()).then(|| message.older.join(" "))),
        ("correlation", message.corr_id.as_ref().map(plain)),
        ("causation", message.causation_id.as_ref().map(plain)),
        ("tenant", message.tenant.as_ref().map(plain)),
        ("content hash", message.content_hash.clone()),
        ("payload bytes", message.payload_bytes.map(|bytes| bytes.to_string())),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let attributes = message.attrs.iter();
    fields.extend(attributes.map(|(name, value)| ("attribute", text::plain(&format!("{name}={value}")))));
    if let Some(payload) = &message.payload_b64 {
        fields.push(("payload", text::payload(payload)));
    }
    fields
}

/// What a holder is called: the name that it gave, else its number.
pub(crate) fn holder(lease: &Lease) -> String {
    lease.worker.clone().unwrap_or_else(|| lease.owner.clone())
}

fn attempts(message: &Message) -> String {
    let limit = message.attempts_max.map(|limit| format!(" of {limit}")).unwrap_or_default();
    format!("{}{limit}", message.attempts)
}

/// What a sweep did.
pub(crate) fn swept(swept: &Swept, done: &str, output: Output) -> Result<(), Trouble> {
    if swept.more {
        output::note("there may be more: run it again, or raise --limit");
    }
    output.one(swept, || {
        let changed = if swept.dry_run { "none: a dry run".to_owned() } else { swept.changed.to_string() };
        pairs(output, &[("matched", swept.matched.to_string()), (done, changed)])
    })
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::operator::Message;

    use super::{failures, fields, row};
    use crate::output::{Color, Format, Output};

    fn message(more: &str) -> Message {
        let text = format!(
            r#"{{"msg_id":"m","uid":"u","namespace":"mailbox","source":"t","id":"k\u001b","state":"dead","reason":"expired",
            "attempts":2,"attempts_max":5,"deliveries":3,"redrives":1,"accepted_at":"T1","last_seen_at":"T2","keyed":false{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_message_is_shown_with_what_is_known() {
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
        assert!(!fields.iter().any(|(name, _)| *name == "topic"), "what is not known is left out");
    }

    #[test]
    fn who_holds_or_held_it_is_named() {
        let lease = r#","state":"processing","lease":{"owner":"o","worker":"w\u001b","until":"T5"}"#;
        let held: Message = serde_json::from_str(
            &serde_json::to_string(&message(""))
                .unwrap()
                .replace(r#","state":"dead","reason":"expired""#, lease),
        )
        .unwrap();
        let shown = fields(&held);
        assert!(shown.contains(&("held by", r"w\u{1b} until T5".to_owned())), "{shown:?}");
        assert!(shown.contains(&("state", r"processing, held by w\u{1b}".to_owned())), "{shown:?}");
        let last = message(r#","last_lease":{"owner":"o","until":"T5"}"#);
        assert!(fields(&last).contains(&("held last by", "o until T5".to_owned())));
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_head() {
        assert_eq!(row(&message(""), Output::new(Some(Format::Table), Color::Never)).len(), 6);
    }

    #[test]
    fn a_row_says_how_often_it_was_redriven() {
        assert_eq!(failures(&message("")), "2 (1 redrive)");
        assert_eq!(failures(&Message { redrives: 3, ..message("") }), "2 (3 redrives)");
        assert_eq!(failures(&Message { redrives: 0, ..message("") }), "2");
    }
}
