//! Between what travels and what the library knows.

use std::sync::Arc;
use std::time::Duration;

use oncebox::Error;
use oncebox::mailbox::{Damaged, Envelope, Parcel, Sent, Ticket};
use oncebox_core::{Trace, Uid};
use oncebox_wire as wire;
use oncebox_wire::{Base64, Code};

use super::super::refusal::Refusal;

/// What the library calls by other names than a request.
const TERMS: [(&str, &str); 9] = [
    ("id", "idem_key"),
    ("attribute name", "a name in attrs"),
    ("attribute", "a name or value in attrs"),
    ("attributes", "attrs"),
    ("messages", "max_messages"),
    ("visibility", "visibility_ms"),
    ("delay", "delay_ms"),
    ("due_in", "due_in_ms"),
    ("expires_in", "expires_in_ms"),
];

/// The longest time that a message may wait until it is due, or until it expires: a year.
const AHEAD_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A failure of the mailbox, in the words of its requests.
pub(super) fn refused(error: Error) -> Refusal {
    Refusal::from(error).in_terms_of(&TERMS)
}

/// The parcel of a message that came for a topic; `trace` is the request's.
pub(super) fn parcel(send: wire::mailbox::Send, topic: Arc<str>, trace: &Trace) -> Result<Parcel, Refusal> {
    if let Some(given) = &send.corr_id
        && given.parse::<Uid>().is_err()
    {
        return Err(Refusal::schema("corr_id is not a UUID: leave it out, and the request's is taken"));
    }
    let mut parcel = Parcel::new(topic, send.idem_key).bytes(send.payload_b64.0);
    if let Some(hash) = send.payload_hash {
        if !is_hash(&hash) {
            return Err(Refusal::schema("payload_hash is not `b3:` and 64 hex digits"));
        }
        parcel = parcel.payload_hash(hash);
    }
    if !send.attrs.is_empty() {
        parcel = parcel.attributes(send.attrs);
    }
    if let Some(partition) = send.partition {
        parcel = parcel.partition(partition);
    }
    if let Some(key) = send.shard_key {
        parcel = parcel.shard_key(key);
    }
    if let Some(millis) = send.due_in_ms {
        parcel = parcel.due_in(ahead("due_in_ms", millis)?);
    }
    if let Some(millis) = send.expires_in_ms {
        parcel = parcel.expires_in(ahead("expires_in_ms", millis)?);
    }
    if let (Some(due), Some(expires)) = (send.due_in_ms, send.expires_in_ms)
        && expires <= due
    {
        return Err(Refusal::schema(format!(
            "expires_in_ms is {expires}, not more than due_in_ms ({due}): the message would expire before it is delivered"
        )));
    }
    Ok(match &send.corr_id {
        Some(given) => parcel.corr_id(given),
        None => parcel.trace(trace.clone()),
    })
}

/// A time from now within its bounds.
fn ahead(name: &str, millis: u64) -> Result<Duration, Refusal> {
    let (ahead, most) = (Duration::from_millis(millis), AHEAD_MAX.as_millis());
    if ahead.is_zero() || ahead > AHEAD_MAX {
        return Err(Refusal::schema(format!("{name} is {millis}: it must be from 1 to {most}")));
    }
    Ok(ahead)
}

fn is_hash(text: &str) -> bool {
    let digits = text.strip_prefix("b3:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// A message that is taken in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) ticket: Ticket,
    /// It came before.
    pub(super) duplicate: bool,
}

/// What became of a message: taken in, now or before, or refused.
pub(super) fn sent(sent: Sent) -> Result<Taken, Refusal> {
    match sent {
        Sent::Accepted(ticket) => Ok(Taken { ticket, duplicate: false }),
        Sent::Duplicate(ticket) => Ok(Taken { ticket, duplicate: true }),
        Sent::Conflict(ticket) => {
            let text = "the idempotency key came before with another payload, and that one stays: send this one under another key";
            Err(Refusal::new(Code::Duplicate, text).taken(ticket.msg_id.to_string(), false))
        }
        Sent::Damaged => Err(Refusal::new(
            Code::Integrity,
            "the payload does not match payload_hash: it was damaged on its way, send it again",
        )),
        Sent::TooLarge { bytes_max } => Err(Refusal::new(
            Code::FrameTooLarge,
            format!("the payload is larger than {bytes_max} bytes, the most that its topic takes"),
        )),
        _ => Err(Refusal::new(Code::Unsupported, "the store answered what this server does not know")),
    }
}

/// The refusal of a call that found nothing but damaged messages.
pub(super) fn damaged(found: &[Damaged]) -> Refusal {
    let ids: Vec<_> = found.iter().map(|damaged| damaged.msg_id.to_string()).collect();
    let text = format!(
        "what the store holds is not what was sent: {} (now dead letters, reason integrity); find out who changed the store's data",
        ids.join(", ")
    );
    Refusal::new(Code::Integrity, text)
}

/// A damaged message, for the receiver to see.
pub(super) fn damage(damaged: &Damaged) -> wire::mailbox::Damaged {
    wire::mailbox::Damaged {
        code: Code::Integrity,
        msg_id: damaged.msg_id.to_string(),
        corr_id: damaged.corr_id.clone(),
    }
}

pub(super) fn envelope(envelope: Envelope) -> wire::mailbox::Envelope {
    let attrs = envelope.attributes.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    wire::mailbox::Envelope {
        msg_id: envelope.msg_id.to_string(),
        topic: envelope.topic,
        ts: envelope.ts.to_string(),
        idem_key: envelope.idem_key,
        payload_b64: Base64(envelope.payload),
        payload_hash: envelope.payload_hash.to_string(),
        attrs,
        corr_id: envelope.corr_id,
        shard: envelope.shard,
        attempt: envelope.attempt,
        hash_chain: envelope.hash_chain.to_string(),
        sig: None,
        receipt: envelope.receipt.to_string(),
        visible_until: envelope.visible_until.to_string(),
    }
}
