//! Conversions between the wire types and the library.

use std::sync::Arc;
use std::time::Duration;

use oncebox::Error;
use oncebox::mailbox::{Damaged, MailboxSettings, OutgoingMessage, SendOutcome, SendReceipt};
use oncebox_core::{Trace, Uid};
use oncebox_wire as wire;
use oncebox_wire::ErrorCode;

use super::super::api_error::ApiError;

/// Names of fields in the library and in requests.
const FIELD_NAMES: [(&str, &str); 9] = [
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

/// Maximum time until a message is due or expires: one year.
const FROM_NOW_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Maximum visibility timeout: half a day.
const VISIBILITY_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// Converts an error of the library, with the field names of requests.
pub(super) fn api_error(error: Error) -> ApiError {
    ApiError::from(error).with_field_names(&FIELD_NAMES)
}

/// Validates a visibility timeout.
pub(super) fn visibility(millis: u64, settings: &MailboxSettings) -> Result<Duration, ApiError> {
    let (visibility, min) = (Duration::from_millis(millis), settings.visibility_min);
    if !(min..=VISIBILITY_MAX).contains(&visibility) {
        let (min, max) = (min.as_millis(), VISIBILITY_MAX.as_millis());
        return Err(ApiError::schema(format!("visibility_ms is {millis}, but must be from {min} to {max}")));
    }
    Ok(visibility)
}

/// Builds the library message of a send request; `trace` is that of the request.
pub(super) fn outgoing_message(
    send: wire::mailbox::SendRequest,
    topic: Arc<str>,
    trace: &Trace,
) -> Result<OutgoingMessage, ApiError> {
    if let Some(corr_id) = &send.corr_id
        && corr_id.parse::<Uid>().is_err()
    {
        return Err(ApiError::schema(
            "corr_id is not a UUID: send a UUID, or omit it to use that of the request",
        ));
    }
    let mut message = OutgoingMessage::new(topic, send.idem_key).bytes(send.payload_b64.0);
    if let Some(hash) = send.payload_hash {
        if !is_hash(&hash) {
            return Err(ApiError::schema("payload_hash is not `b3:` followed by 64 hex digits"));
        }
        message = message.payload_hash(hash);
    }
    if !send.attrs.is_empty() {
        message = message.attributes(send.attrs);
    }
    if let Some(partition) = send.partition {
        message = message.partition(partition);
    }
    if let Some(key) = send.shard_key {
        message = message.shard_key(key);
    }
    if let Some(millis) = send.due_in_ms {
        message = message.due_in(from_now("due_in_ms", millis)?);
    }
    if let Some(millis) = send.expires_in_ms {
        message = message.expires_in(from_now("expires_in_ms", millis)?);
    }
    if let (Some(due), Some(expires)) = (send.due_in_ms, send.expires_in_ms)
        && expires <= due
    {
        return Err(ApiError::schema(format!(
            "expires_in_ms is {expires}, but must be greater than due_in_ms ({due}): the message would expire before it is due"
        )));
    }
    Ok(match &send.corr_id {
        Some(corr_id) => message.corr_id(corr_id),
        None => message.trace(trace.clone()),
    })
}

/// Validates a time from now.
fn from_now(name: &str, millis: u64) -> Result<Duration, ApiError> {
    let (from_now, max) = (Duration::from_millis(millis), FROM_NOW_MAX.as_millis());
    if from_now.is_zero() || from_now > FROM_NOW_MAX {
        return Err(ApiError::schema(format!("{name} is {millis}, but must be from 1 to {max}")));
    }
    Ok(from_now)
}

fn is_hash(text: &str) -> bool {
    let digits = text.strip_prefix("b3:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// A message that was accepted, now or before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    pub(super) receipt: SendReceipt,
    /// Whether the message was accepted before.
    pub(super) duplicate: bool,
}

/// Converts the outcome of a send.
pub(super) fn accepted(outcome: SendOutcome) -> Result<Accepted, ApiError> {
    match outcome {
        SendOutcome::Accepted(receipt) => Ok(Accepted { receipt, duplicate: false }),
        SendOutcome::Duplicate(receipt) => Ok(Accepted { receipt, duplicate: true }),
        SendOutcome::Conflict(receipt) => {
            let text = "the idempotency key was used before with another payload, which is kept: send this payload with another key";
            Err(ApiError::new(ErrorCode::Duplicate, text).existing(receipt.msg_id.to_string(), false))
        }
        SendOutcome::HashMismatch => Err(ApiError::new(
            ErrorCode::Integrity,
            "the payload does not match payload_hash: it was corrupted in transit, send it again",
        )),
        SendOutcome::TooLarge { bytes_max } => Err(ApiError::new(
            ErrorCode::FrameTooLarge,
            format!("the payload is larger than {bytes_max} bytes, the maximum of its topic"),
        )),
        _ => Err(ApiError::new(ErrorCode::Unsupported, "the store returned an unknown outcome")),
    }
}

/// The error of a receive that found nothing but damaged messages.
pub(super) fn damaged(found: &[Damaged]) -> ApiError {
    let ids: Vec<_> = found.iter().map(|damaged| damaged.msg_id.to_string()).collect();
    let text = format!(
        "stored messages differ from what was sent: {} (now dead letters with reason integrity); find out what changed the data of the store",
        ids.join(", ")
    );
    ApiError::new(ErrorCode::Integrity, text)
}

/// Converts why nothing was received.
pub(super) fn refused_to_wire(error: &ApiError) -> wire::mailbox::RefusedClaim {
    wire::mailbox::RefusedClaim { code: error.code, message: error.message.clone(), reason: error.reason() }
}

/// Converts a damaged message for the receiver.
pub(super) fn damaged_to_wire(damaged: &Damaged) -> wire::mailbox::DamagedMessage {
    wire::mailbox::DamagedMessage {
        code: ErrorCode::Integrity,
        msg_id: damaged.msg_id.to_string(),
        corr_id: damaged.corr_id.clone(),
    }
}
