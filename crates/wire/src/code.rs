//! Error responses and stable error codes.

use serde::{Deserialize, Serialize};

/// Stable error code, the same in every API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum ErrorCode {
    /// The request is invalid: fix it before you send it again.
    #[serde(rename = "E_SCHEMA")]
    Schema,
    /// The token is missing or not valid.
    #[serde(rename = "E_CAP_AUTH")]
    CapAuth,
    /// The token does not allow this request; or the request comes from a web page, or is for another host.
    #[serde(rename = "E_CAP_SCOPE")]
    CapScope,
    /// The message, topic or path does not exist.
    #[serde(rename = "E_NOT_FOUND")]
    NotFound,
    /// The delivery is no longer leased, or never was; nothing was changed.
    #[serde(rename = "E_LEASE_LOST")]
    LeaseLost,
    /// The path does not support this method.
    #[serde(rename = "E_METHOD")]
    Method,
    /// The request took too long to arrive.
    #[serde(rename = "E_TIMEOUT")]
    Timeout,
    /// The idempotency key is already in use.
    #[serde(rename = "E_DUPLICATE")]
    Duplicate,
    /// The message was delivered more than once: identify the delivery by its receipt.
    #[serde(rename = "E_RECEIPT")]
    Receipt,
    /// The request or message is too large: make it smaller.
    #[serde(rename = "E_FRAME_TOO_LARGE")]
    FrameTooLarge,
    /// The payload does not match its hash.
    #[serde(rename = "E_INTEGRITY")]
    Integrity,
    /// A bound is reached: slow down, and retry later.
    #[serde(rename = "E_SATURATED")]
    Saturated,
    /// The store does not support this request.
    #[serde(rename = "E_UNSUPPORTED")]
    Unsupported,
    /// The store is unreachable, or the server is stopping: retry later.
    #[serde(rename = "E_UNAVAILABLE")]
    Unavailable,
    /// Stored data is damaged: an operator must act.
    #[serde(rename = "E_CORRUPT")]
    Corrupt,
}

impl ErrorCode {
    /// Every code with its text and its HTTP status.
    pub const ALL: [(Self, &'static str, u16); 15] = [
        (Self::Schema, "E_SCHEMA", 400),
        (Self::CapAuth, "E_CAP_AUTH", 401),
        (Self::CapScope, "E_CAP_SCOPE", 403),
        (Self::NotFound, "E_NOT_FOUND", 404),
        (Self::LeaseLost, "E_LEASE_LOST", 404),
        (Self::Method, "E_METHOD", 405),
        (Self::Timeout, "E_TIMEOUT", 408),
        (Self::Duplicate, "E_DUPLICATE", 409),
        (Self::Receipt, "E_RECEIPT", 409),
        (Self::FrameTooLarge, "E_FRAME_TOO_LARGE", 413),
        (Self::Integrity, "E_INTEGRITY", 422),
        (Self::Saturated, "E_SATURATED", 429),
        (Self::Unsupported, "E_UNSUPPORTED", 501),
        (Self::Unavailable, "E_UNAVAILABLE", 503),
        (Self::Corrupt, "E_CORRUPT", 503),
    ];

    fn entry(self) -> (Self, &'static str, u16) {
        *Self::ALL.iter().find(|(code, ..)| *code == self).expect("every code is listed")
    }

    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        self.entry().1
    }

    /// The HTTP status of the code.
    pub fn status(self) -> u16 {
        self.entry().2
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Saturated | Self::Unavailable | Self::Timeout)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Body of every error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// Stable error code.
    pub code: ErrorCode,
    /// What went wrong, and what to do about it.
    pub message: String,
    /// Correlation id of the request, also in the server's log.
    pub corr_id: String,
    /// Id of the message that has the idempotency key; only with `E_DUPLICATE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// Whether that message has the same payload; only with `E_DUPLICATE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// Bound that is reached; only with `E_SATURATED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundUsage>,
    /// Why the token of the request is refused; see `docs/reference/capabilities.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the caveat that refuses the request, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// A bound and its usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoundUsage {
    /// Name of the bound: `messages`, `keys`, `live_bytes`, `disk_bytes` (of the store), `lane_messages` (of a topic's
    /// shard), `in_flight` (of all receivers); `paused` if the topic is paused for sending, without numbers.
    pub name: String,
    /// Current usage. On PostgreSQL a large number of `keys` comes from the database's statistics, which are one or two
    /// seconds old.
    pub used: u64,
    /// Maximum usage.
    pub limit: u64,
    /// How to raise the bound, or to free capacity below it.
    #[serde(default)]
    pub remedy: String,
}

/// Error response as problem details (RFC 9457), for clients that accept `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Always `about:blank`: see `code`.
    pub r#type: String,
    /// The same as `code`.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What went wrong, and what to do about it.
    pub detail: String,
    /// The fields of the plain error body.
    #[serde(flatten)]
    pub body: ErrorBody,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ErrorCode;

    /// The codes required by MBX-C-10; every other code is listed as an exception there, with its status.
    /// Holds: MBX-C-10.
    #[test]
    fn every_code_is_required_or_a_listed_exception() {
        const REQUIRED: [(&str, u16); 8] = [
            ("E_SCHEMA", 400),
            ("E_CAP_AUTH", 401),
            ("E_CAP_SCOPE", 403),
            ("E_DUPLICATE", 409),
            ("E_FRAME_TOO_LARGE", 413),
            ("E_SATURATED", 429),
            ("E_UNAVAILABLE", 503),
            ("E_INTEGRITY", 422),
        ];
        let known: BTreeSet<_> =
            ErrorCode::ALL.iter().map(|(_, text, status)| format!("`{text}` ({status})")).collect();
        let required: BTreeSet<_> =
            REQUIRED.iter().map(|(text, status)| format!("`{text}` ({status})")).collect();
        assert!(required.is_subset(&known), "{required:?}");
        let page = include_str!("../../../docs/reference/requirements/mailbox.md");
        let row = page
            .lines()
            .find(|line| line.starts_with("- **Instead:** Codes are added"))
            .expect("the exception is there");
        let listed = row.split("`E_").skip(1).filter_map(|rest| {
            let (name, rest) = rest.split_once("` (")?;
            let (status, _) = rest.split_once(')')?;
            Some(format!("`E_{name}` ({status})"))
        });
        let extra: BTreeSet<_> = known.difference(&required).cloned().collect();
        assert_eq!(listed.collect::<BTreeSet<_>>(), extra);
    }

    /// Holds: MBX-C-10.
    #[test]
    fn the_serialized_code_is_its_text() {
        for (code, text, status) in ErrorCode::ALL {
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{text}\""));
            assert_eq!((code.as_str(), code.status()), (text, status));
        }
    }
}
