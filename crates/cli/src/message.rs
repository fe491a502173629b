//! Messages as operators see them.

use oncebox_client::wire::operator::{Message, State, Swept};

use crate::output::{self, Cell, Output, Tone, pairs, table};
use crate::trouble::Trouble;
use crate::{text, word};

/// A list of messages.
pub(crate) fn list(messages: &[Message], output: Output) -> Result<(), Trouble> {
    if messages.is_empty() {
        output::note("no message matches");
    }
    output.many(messages, || {
        let rows: Vec<_> = messages.iter().map(row).collect();
        table(output, &["message", "topic", "key", "state", "failures", "accepted", "last error"], &rows)
    })
}

fn row(message: &Message) -> Vec<Cell> {
    let Message { msg_id, source, topic, id, accepted_at, last_error, .. } = message;
    vec![
        Cell::from(msg_id),
        Cell::from(topic.as_ref().unwrap_or(source)),
        Cell::from(id),
        Cell::toned(tone(message), standing(message)),
        Cell::from(failures(message)),
        Cell::from(accepted_at),
        Cell::from(last_error.as_deref().unwrap_or_default()),
    ]
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
        (None, Some(_)) => format!("{}, held", word::of(message.state)),
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
        ("accepted", message.accepted_at.clone()),
        ("key came last", message.last_seen_at.clone()),
    ];
    let lease = message.lease.as_ref().map(|lease| format!("{} until {}", plain(&lease.owner), lease.until));
    let known = if message.keyed { message.dedup_until.clone() } else { Some("forgotten".to_owned()) };
    let optional = [
        ("topic", message.topic.as_ref().map(plain)),
        ("partition", message.partition.as_ref().map(plain)),
        ("shard", message.shard.map(|shard| shard.to_string())),
        ("held by", lease),
        ("not before", message.due_at.clone()),
        ("tried next", message.retry_at.clone()),
        ("expires", message.expires_at.clone()),
        ("finished", message.finished_at.clone()),
        ("last error", message.last_error.as_ref().map(plain)),
        ("key known until", known),
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
            ("key known until", "forgotten"),
            ("last error", r"no\nway"),
            ("payload", "hi"),
        ] {
            assert!(fields.contains(&(field.0, field.1.to_owned())), "{field:?} {fields:?}");
        }
        assert!(!fields.iter().any(|(name, _)| *name == "topic"), "what is not known is left out");
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_head() {
        assert_eq!(row(&message("")).len(), 7);
    }

    #[test]
    fn a_row_says_how_often_it_was_redriven() {
        assert_eq!(failures(&message("")), "2 (1 redrive)");
        assert_eq!(failures(&Message { redrives: 3, ..message("") }), "2 (3 redrives)");
        assert_eq!(failures(&Message { redrives: 0, ..message("") }), "2");
    }
}
