//! A message in plain sentences.

use oncebox_client::wire::operator::{Message, Namespace, Reason, State};

use crate::message::holder;
use crate::text::plain;
use crate::word;

/// The story, a sentence or two per line.
pub(crate) fn tell(message: &Message) -> Vec<String> {
    let parts = [
        Some(name(message)),
        Some(arrival(message)),
        deliveries(message),
        last_holder(message),
        redrives(message),
        last_error(message),
        Some(standing(message)),
        expiry(message),
        Some(content(message)),
        Some(repeats(message)),
        older(message),
    ];
    parts.into_iter().flatten().collect()
}

fn name(message: &Message) -> String {
    let Message { msg_id, uid, namespace, source, id, .. } = message;
    let (source, id) = (plain(source), plain(id));
    match namespace {
        Namespace::Mailbox => format!("Message {msg_id} of the mailbox: topic {source}, key {id}."),
        Namespace::Ledger => format!("Key {id} of the ledger: message {uid}."),
        _ => format!("Message {uid} of namespace {}: source {source}, key {id}.", word::of(namespace)),
    }
}

fn arrival(message: &Message) -> String {
    let Message { accepted_at, last_seen_at, .. } = message;
    if accepted_at == last_seen_at {
        return format!("It came at {accepted_at}, and its key has not come again.");
    }
    format!(
        "It came at {accepted_at}. Its key came again, last at {last_seen_at}: it is still the same message."
    )
}

fn deliveries(message: &Message) -> Option<String> {
    let Message { deliveries, attempts, attempts_max, namespace, .. } = message;
    if *namespace == Namespace::Ledger {
        return Some(format!("It was begun {}.", times(*deliveries)));
    }
    if *deliveries == 0 {
        return (message.state != State::Seen).then(|| "It was never delivered.".to_owned());
    }
    let limit = attempts_max.map(|limit| format!(" ({limit} may)")).unwrap_or_default();
    if *deliveries == 1 {
        let badly = if *attempts == 0 { String::new() } else { format!(", and that ended badly{limit}") };
        return Some(format!("It was delivered once{badly}."));
    }
    let badly = match attempts {
        // Another chance begins at zero.
        0 => "no failure counts any more".to_owned(),
        1 => "one of them ended badly".to_owned(),
        many => format!("{many} of them ended badly"),
    };
    Some(format!("It was delivered {}; {badly}{limit}.", times(*deliveries)))
}

fn last_holder(message: &Message) -> Option<String> {
    let lease = message.last_lease.as_ref()?;
    Some(format!("{} held it last, until {} at most.", plain(&holder(lease)), lease.until))
}

fn redrives(message: &Message) -> Option<String> {
    (message.redrives > 0).then(|| format!("An operator redrove it {}.", times(message.redrives)))
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

fn last_error(message: &Message) -> Option<String> {
    message.last_error.as_ref().map(|error| format!("The last error: {}", plain(error)))
}

fn standing(message: &Message) -> String {
    let at = message.finished_at.as_deref().unwrap_or("an unknown time");
    match message.state {
        State::Done => format!("It was handled: done at {at}."),
        State::Dead => dead(message, at),
        State::Seen | State::Processing => pending(message),
        _ => format!("It is {}.", word::of(message.state)),
    }
}

fn dead(message: &Message, at: &str) -> String {
    let why = match message.reason {
        Some(Reason::Failed) => "a worker or an operator said that it cannot be handled",
        Some(Reason::Exhausted) => "its deliveries ended badly as often as they may",
        Some(Reason::Expired) => "nobody handled it before it expired",
        Some(Reason::Cancelled) => "an operator cancelled it",
        Some(Reason::Integrity) => "its payload does not match its hash",
        Some(Reason::Unhandled) => "no handler takes its topic",
        Some(Reason::Undecodable) => "its payload cannot be decoded",
        _ => "nobody says why",
    };
    let (id, namespace) = (&message.msg_id, message.namespace);
    let again = match namespace {
        Namespace::Mailbox => format!("oncebox dlq redrive {id}"),
        _ => format!("oncebox messages redrive --namespace {} {id}", word::of(namespace)),
    };
    format!("It was given up at {at}: {why}. For another chance: {again}")
}

fn pending(message: &Message) -> String {
    if let Some(lease) = &message.lease {
        let (holder, until) = (plain(&holder(lease)), &lease.until);
        return format!("{holder} holds it until {until}; unless it is settled by then, it comes again.");
    }
    if message.state == State::Seen {
        return "Its key was sighted, and nobody holds it.".to_owned();
    }
    match (&message.retry_at, &message.due_at) {
        (Some(retry), _) => format!("It is tried next from {retry} on."),
        (None, Some(due)) => format!("It is delivered from {due} on: its sender said so."),
        (None, None) => "It is to be delivered now: the next receiver of its topic gets it.".to_owned(),
    }
}

fn expiry(message: &Message) -> Option<String> {
    let pending = matches!(message.state, State::Seen | State::Processing);
    let expires = message.expires_at.as_ref().filter(|_| pending)?;
    Some(format!("Unless it is handled before {expires}, it is given up then."))
}

fn content(message: &Message) -> String {
    let partition = message.partition.as_ref();
    let partition = partition.map(|name| format!(" Its partition is {}.", plain(name))).unwrap_or_default();
    match message.payload_bytes {
        Some(1) => format!("Its payload is there: 1 byte.{partition}"),
        Some(bytes) => format!("Its payload is there: {bytes} bytes.{partition}"),
        None => format!("No payload is kept of it.{partition}"),
    }
}

/// Until when the key is remembered, and what a repeat would do.
fn repeats(message: &Message) -> String {
    if !message.keyed {
        return match &message.dedup_until {
            Some(until) => format!("Its key was held until {until}: sent again, it would be a new message."),
            None => "Its key is not held any more: sent again, it would be a new message.".to_owned(),
        };
    }
    let until = match &message.dedup_until {
        Some(until) => format!("Its key is remembered until {until} at least"),
        None => "Its key is remembered while it is unfinished, and for a while after".to_owned(),
    };
    let repeat = match (message.namespace, message.state) {
        (Namespace::Mailbox, _) => {
            "sent again with the same payload, it is a duplicate; with another, it is refused (E_DUPLICATE)"
        }
        (Namespace::Ledger, State::Done) => "whoever begins it is told that it is processed",
        (Namespace::Ledger, _) => "whoever begins it while it is leased is told that it is busy",
        (Namespace::Inbox, State::Done) => "sent again, it is a duplicate",
        (Namespace::Inbox, _) => {
            "sent again with other content, that takes its place; with the same, it is a duplicate"
        }
        (Namespace::Commands, _) => "sent again, it is a duplicate, and the first content stays",
    };
    format!("{until}: {repeat}.")
}

/// The others that came under its key.
fn older(message: &Message) -> Option<String> {
    let newest = message.older.first()?;
    let count = message.older.len();
    let before = if count == 1 {
        format!("Before it, message {newest} came under the same key")
    } else {
        format!("Before it, {count} messages came under the same key, the newest of them {newest}")
    };
    Some(format!("{before}: oncebox explain {newest}"))
}

#[cfg(test)]
mod tests;
