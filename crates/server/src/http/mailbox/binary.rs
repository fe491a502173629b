//! Messages with a binary body and the other fields in headers.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use oncebox::mailbox::Envelope;
use oncebox_wire as wire;
use oncebox_wire::{Base64, ErrorCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::api_error::ApiError;
use super::super::percent;
use super::super::response::{self, Response};
use crate::access::Grant;

/// Names of message fields as headers.
pub(super) const HEADER_NAMES: [(&str, &str); 8] = [
    ("topic", header::TOPIC),
    ("idem_key", header::IDEM_KEY),
    ("payload_hash", header::PAYLOAD_HASH),
    ("attrs", header::ATTRS),
    ("partition", header::PARTITION),
    ("shard_key", header::SHARD_KEY),
    ("due_in_ms", header::DUE_IN_MS),
    ("expires_in_ms", header::EXPIRES_IN_MS),
];

/// Builds the message from a body and headers.
pub(super) fn message(headers: &HeaderMap, payload: &[u8]) -> Result<wire::mailbox::SendRequest, ApiError> {
    let required = |name: &'static str| {
        text(headers, name)?.ok_or_else(|| ApiError::schema(format!("the header `{name}` is missing")))
    };
    Ok(wire::mailbox::SendRequest {
        topic: required(header::TOPIC)?,
        idem_key: required(header::IDEM_KEY)?,
        // A slice of the read buffer would keep the whole buffer in memory.
        payload_b64: Base64(Bytes::copy_from_slice(payload)),
        payload_hash: text(headers, header::PAYLOAD_HASH)?,
        attrs: attributes(headers)?,
        partition: text(headers, header::PARTITION)?,
        shard_key: text(headers, header::SHARD_KEY)?,
        corr_id: None,
        due_in_ms: number(headers, header::DUE_IN_MS)?,
        expires_in_ms: number(headers, header::EXPIRES_IN_MS)?,
    })
}

fn number(headers: &HeaderMap, name: &'static str) -> Result<Option<u64>, ApiError> {
    let Some(text) = text(headers, name)? else { return Ok(None) };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    let error = || ApiError::schema(format!("the header `{name}` is not a whole number of milliseconds"));
    number.ok_or_else(error).map(Some)
}

fn text(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let value = value.to_str().map_err(|_| not_encoded(name))?;
    decode(value, name).map(Some)
}

fn decode(value: &str, name: &'static str) -> Result<String, ApiError> {
    percent::decode(value).map(std::borrow::Cow::into_owned).ok_or_else(|| not_encoded(name))
}

fn not_encoded(name: &'static str) -> ApiError {
    ApiError::schema(format!(
        "the header `{name}` is not percent-encoded UTF-8: encode a byte as `%` and two hex digits, and `%` itself as `%25`"
    ))
}

fn attributes(headers: &HeaderMap) -> Result<BTreeMap<String, String>, ApiError> {
    let name = header::ATTRS;
    let Some(value) = headers.get(name) else { return Ok(BTreeMap::new()) };
    let value = value.to_str().map_err(|_| not_encoded(name))?;
    let mut attributes = BTreeMap::new();
    for pair in value.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| ApiError::schema("x-attrs is not of the form name=value&name=value"))?;
        if attributes.insert(decode(key, name)?, decode(value, name)?).is_some() {
            return Err(ApiError::schema("x-attrs contains a name more than once: send each name once"));
        }
    }
    Ok(attributes)
}

/// Responds with the payload as the body and the other fields as headers.
pub(super) fn response(envelope: Envelope, delegating: Option<&Grant>) -> Result<Response, ApiError> {
    let mut attrs = String::new();
    for (name, value) in envelope.attributes.iter() {
        let separator = if attrs.is_empty() { "" } else { "&" };
        let _ = write!(attrs, "{separator}{}={}", encode(name), encode(value));
    }
    let capability = delegating.and_then(|grant| grant.for_delivery(envelope.receipt).ok());
    let mut response = response::whole(envelope.payload, "application/octet-stream");
    let headers = response.headers_mut();
    for (name, value) in [
        (header::MSG_ID, envelope.msg_id.to_string()),
        (header::TOPIC, encode(&envelope.topic)),
        (header::TS, envelope.ts.to_string()),
        (header::IDEM_KEY, encode(&envelope.idem_key)),
        (header::PAYLOAD_HASH, envelope.payload_hash.to_string()),
        (header::ATTRS, attrs),
        (header::SHARD, envelope.shard.to_string()),
        (header::ATTEMPT, envelope.attempt.to_string()),
        (header::HASH_CHAIN, envelope.hash_chain.to_string()),
        (header::MSG_CORR_ID, envelope.corr_id),
        (header::RECEIPT, envelope.receipt.to_string()),
        (header::VISIBLE_UNTIL, envelope.visible_until.to_string()),
    ]
    .into_iter()
    .chain(capability.map(|token| (header::CAPABILITY, token.to_text())))
    {
        let value = HeaderValue::try_from(value).map_err(|_| {
            ApiError::new(
                ErrorCode::Unsupported,
                "the message cannot be represented in headers: receive it as JSON",
            )
        })?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(response)
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
