//! Errors: one shape, and codes that never change.

use serde::{Deserialize, Serialize};

/// What went wrong, as every door says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum Code {
    /// The request is wrong: fix it, do not repeat it.
    #[serde(rename = "E_SCHEMA")]
    Schema,
    /// The request must prove who sends it.
    #[serde(rename = "E_CAP_AUTH")]
    CapAuth,
    /// The sender may not do this.
    #[serde(rename = "E_CAP_SCOPE")]
    CapScope,
    /// There is no such thing.
    #[serde(rename = "E_NOT_FOUND")]
    NotFound,
    /// The delivery is not held any more, or never was; nothing changed.
    #[serde(rename = "E_LEASE_LOST")]
    LeaseLost,
    /// The path knows other methods.
    #[serde(rename = "E_METHOD")]
    Method,
    /// The request took too long to arrive.
    #[serde(rename = "E_TIMEOUT")]
    Timeout,
    /// The idempotency key is taken.
    #[serde(rename = "E_DUPLICATE")]
    Duplicate,
    /// The message was delivered more than once: name the delivery by its receipt.
    #[serde(rename = "E_RECEIPT")]
    Receipt,
    /// Too large: make it smaller.
    #[serde(rename = "E_FRAME_TOO_LARGE")]
    FrameTooLarge,
    /// The payload does not match its hash.
    #[serde(rename = "E_INTEGRITY")]
    Integrity,
    /// Full: slow down, and repeat the request later.
    #[serde(rename = "E_SATURATED")]
    Saturated,
    /// The store cannot do this.
    #[serde(rename = "E_UNSUPPORTED")]
    Unsupported,
    /// Out of reach, or stopping: repeat the request later.
    #[serde(rename = "E_UNAVAILABLE")]
    Unavailable,
    /// Stored data is damaged: an operator must look.
    #[serde(rename = "E_CORRUPT")]
    Corrupt,
}

impl Code {
    /// Every code, with the status of HTTP that goes with it.
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

    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        self.entry().1
    }

    /// The status of HTTP that goes with it.
    pub fn status(self) -> u16 {
        self.entry().2
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Saturated | Self::Unavailable | Self::Timeout)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The body of every answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What went wrong.
    pub code: Code,
    /// The same for people, with what to do.
    pub message: String,
    /// Ties the answer to the request, here and in the logs.
    pub corr_id: String,
    /// The message that has the idempotency key, if that is the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// Whether that message has the same payload, if that is the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// The bound that is reached, if that is the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

/// A bound, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bound {
    /// Its name: `messages`, `keys`, `live_bytes`, `disk_bytes` (of the store), `lane_messages` (of a topic's shard),
    /// `in_flight` (of all receivers).
    pub name: String,
    /// How much is used. Many `keys` on PostgreSQL are what the server's statistics say, which are a second or two behind.
    pub used: u64,
    /// How much may be used.
    pub limit: u64,
    /// What raises it, or makes space below it.
    #[serde(default)]
    pub remedy: String,
}

/// The same as RFC 9457 shapes it, for those who accept `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Always `about:blank`: the code tells.
    pub r#type: String,
    /// The code again.
    pub title: String,
    /// The status of HTTP.
    pub status: u16,
    /// What went wrong for people, with what to do.
    pub detail: String,
    /// The shape of all other clients.
    #[serde(flatten)]
    pub body: ErrorBody,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Code;

    /// The design's own codes; whatever else the server can answer is listed as an exception, with its status.
    /// Holds: MBX-C-10.
    #[test]
    fn every_code_is_the_designs_or_a_listed_exception() {
        const DESIGN: [(&str, u16); 8] = [
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
            Code::ALL.iter().map(|(_, text, status)| format!("`{text}` ({status})")).collect();
        let design: BTreeSet<_> =
            DESIGN.iter().map(|(text, status)| format!("`{text}` ({status})")).collect();
        assert!(design.is_subset(&known), "{design:?}");
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
        let extra: BTreeSet<_> = known.difference(&design).cloned().collect();
        assert_eq!(listed.collect::<BTreeSet<_>>(), extra);
    }

    /// Holds: MBX-C-10.
    #[test]
    fn a_code_is_written_as_it_is_called() {
        for (code, text, status) in Code::ALL {
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{text}\""));
            assert_eq!((code.as_str(), code.status()), (text, status));
        }
    }
}
