//! Describes a message in plain sentences.

use oncebox_client::wire::operator::{MessageDetails, NamespaceName, ReasonName, StateName};

use crate::message::holder;
use crate::text::escape;
use crate::value;

/// The description, one or two sentences per line.
pub(crate) fn describe(message: &MessageDetails) -> Vec<String> {
    let parts = [
        Some(name(message)),
        Some(accepted(message)),
        deliveries(message),
        last_holder(message),
        redrives(message),
        last_error(message),
        Some(state(message)),
        expiry(message),
        Some(content(message)),
        Some(repeats(message)),
        older(message),
    ];
    parts.into_iter().flatten().collect()
}

fn name(message: &MessageDetails) -> String {
    let MessageDetails { msg_id, uid, namespace, source, id, .. } = message;
    let (source, id) = (escape(source), escape(id));
    match namespace {
        NamespaceName::Mailbox => format!("Message {msg_id} in the mailbox: topic {source}, key {id}."),
        NamespaceName::Ledger => format!("Key {id} in the ledger: message {uid}."),
        _ => {
            format!("Message {uid} in namespace {}: source {source}, key {id}.", value::wire_name(namespace))
        }
    }
}

fn accepted(message: &MessageDetails) -> String {
    let MessageDetails { accepted_at, last_seen_at, .. } = message;
    if accepted_at == last_seen_at {
        return format!("It was accepted at {accepted_at}; its key has not been seen since.");
    }
    format!(
        "It was accepted at {accepted_at}; its key was last seen at {last_seen_at} and refers to the same message."
    )
}

fn deliveries(message: &MessageDetails) -> Option<String> {
    let MessageDetails { deliveries, attempts, attempts_max, namespace, .. } = message;
    if *namespace == NamespaceName::Ledger {
        return Some(format!("It was begun {}.", times(*deliveries)));
    }
    if *deliveries == 0 {
        return (message.state != StateName::Seen).then(|| "It was never delivered.".to_owned());
    }
    let limit = attempts_max.map(|limit| format!(" (limit {limit})")).unwrap_or_default();
    if *deliveries == 1 {
        let failed =
            if *attempts == 0 { String::new() } else { format!(", and that delivery failed{limit}") };
        return Some(format!("It was delivered once{failed}."));
    }
    let failed = match attempts {
        // A redrive resets the count.
        0 => "none counts as a failure".to_owned(),
        1 => "one delivery failed".to_owned(),
        many => format!("{many} deliveries failed"),
    };
    Some(format!("It was delivered {}; {failed}{limit}.", times(*deliveries)))
}

fn last_holder(message: &MessageDetails) -> Option<String> {
    let lease = message.last_lease.as_ref()?;
    Some(format!("{} was the last to hold it, until {} at the latest.", escape(&holder(lease)), lease.until))
}

fn redrives(message: &MessageDetails) -> Option<String> {
    (message.redrives > 0).then(|| format!("An operator redrove it {}.", times(message.redrives)))
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

fn last_error(message: &MessageDetails) -> Option<String> {
    message.last_error.as_ref().map(|error| format!("Last error: {}", escape(error)))
}

fn state(message: &MessageDetails) -> String {
    let at = message.finished_at.as_deref().unwrap_or("an unknown time");
    match message.state {
        StateName::Done => format!("It was handled and marked done at {at}."),
        StateName::Dead => dead(message, at),
        StateName::Seen | StateName::Processing => pending(message),
        _ => format!("It is {}.", value::wire_name(message.state)),
    }
}

fn dead(message: &MessageDetails, at: &str) -> String {
    let why = match message.reason {
        Some(ReasonName::Failed) => "a worker or an operator reported that it cannot be handled",
        Some(ReasonName::Exhausted) => "it failed the maximum number of times",
        Some(ReasonName::Expired) => "it was not handled before it expired",
        Some(ReasonName::Cancelled) => "an operator cancelled it",
        Some(ReasonName::Integrity) => "its payload does not match its hash",
        Some(ReasonName::Unhandled) => "no handler is registered for its topic",
        Some(ReasonName::Undecodable) => "its payload cannot be decoded",
        _ => "the reason is unknown",
    };
    let (id, namespace) = (&message.msg_id, message.namespace);
    let redrive = match namespace {
        NamespaceName::Mailbox => format!("oncebox dlq redrive {id}"),
        _ => format!("oncebox messages redrive --namespace {} {id}", value::wire_name(namespace)),
    };
    format!("It became a dead letter at {at}: {why}. To redrive it: {redrive}")
}

fn pending(message: &MessageDetails) -> String {
    if let Some(lease) = &message.lease {
        let (holder, until) = (escape(&holder(lease)), &lease.until);
        return format!("{holder} holds it until {until}; if it is not settled by then, it is redelivered.");
    }
    if message.state == StateName::Seen {
        return "Its key was observed, and no lease is held on it.".to_owned();
    }
    match (&message.retry_at, &message.due_at) {
        (Some(retry), _) => format!("The next delivery is at {retry} or later."),
        (None, Some(due)) => format!("It is delivered at {due} or later, as its sender requested."),
        (None, None) => "It is ready: the next receiver of its topic gets it.".to_owned(),
    }
}

fn expiry(message: &MessageDetails) -> Option<String> {
    let pending = matches!(message.state, StateName::Seen | StateName::Processing);
    let expires = message.expires_at.as_ref().filter(|_| pending)?;
    Some(format!("If it is not handled before {expires}, it expires and becomes a dead letter."))
}

fn content(message: &MessageDetails) -> String {
    let partition = message.partition.as_ref();
    let partition = partition.map(|name| format!(" Its partition is {}.", escape(name))).unwrap_or_default();
    match message.payload_bytes {
        Some(1) => format!("Its payload is stored: 1 byte.{partition}"),
        Some(bytes) => format!("Its payload is stored: {bytes} bytes.{partition}"),
        None => format!("Its payload is not stored.{partition}"),
    }
}

/// How long the key is held, and what sending it again would do.
fn repeats(message: &MessageDetails) -> String {
    if !message.keyed {
        return match &message.dedup_until {
            Some(until) => format!("Its key was held until {until}: sending it again creates a new message."),
            None => "Its key is no longer held: sending it again creates a new message.".to_owned(),
        };
    }
    let until = match &message.dedup_until {
        Some(until) => format!("Its key is held until {until} at least"),
        None => "Its key is held until it is finished, and for some time after".to_owned(),
    };
    let repeat = match (message.namespace, message.state) {
        (NamespaceName::Mailbox, _) => {
            "sending it again is a duplicate if the payload is the same, and refused (E_DUPLICATE) if it differs"
        }
        (NamespaceName::Ledger, StateName::Done) => "beginning it again returns that it is processed",
        (NamespaceName::Ledger, _) => "beginning it while it is leased returns that it is busy",
        (NamespaceName::Inbox, StateName::Done) => "sending it again is a duplicate",
        (NamespaceName::Inbox, _) => {
            "sending it again is a duplicate if the content is the same, and replaces the content if it differs"
        }
        (NamespaceName::Commands, _) => "sending it again is a duplicate, and the first content is kept",
    };
    format!("{until}: {repeat}.")
}

/// Earlier messages with the same key.
fn older(message: &MessageDetails) -> Option<String> {
    let newest = message.older.first()?;
    let count = message.older.len();
    let before = if count == 1 {
        format!("An earlier message, {newest}, had the same key")
    } else {
        format!("{count} earlier messages had the same key, most recently {newest}")
    };
    Some(format!("{before}: oncebox explain {newest}"))
}

#[cfg(test)]
mod tests;
