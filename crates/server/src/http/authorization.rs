//! The token of a request, and how a refusal is answered.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH};
use oncebox_capability::Refusal;
use oncebox_wire::ErrorCode;

use super::api_error::ApiError;
use super::body::{self, BodyKind};
use crate::access::{AccessRefusal, RateExceeded, TooOld};

/// The token of a request; none if it has no header `Authorization: Bearer`.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

/// The smallest payload that a request can have: the announced length, if the body is the payload.
pub(super) fn announced_payload(headers: &HeaderMap) -> u64 {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match body::kind(headers) {
        Ok(BodyKind::Bytes) => length.unwrap_or(0),
        _ => 0,
    }
}

impl From<AccessRefusal> for ApiError {
    fn from(refusal: AccessRefusal) -> Self {
        match refusal {
            AccessRefusal::NoToken => {
                Self::new(ErrorCode::CapAuth, "no token: send one in the header `authorization: Bearer …`")
                    .with_reason("missing", None)
            }
            AccessRefusal::Token(refusal) => {
                let code = match refusal {
                    Refusal::Auth(_) => ErrorCode::CapAuth,
                    Refusal::Scope(_) => ErrorCode::CapScope,
                };
                Self::new(code, refusal.to_string()).with_reason(refusal.reason(), refusal.caveat())
            }
            AccessRefusal::RevocationsTooOld(TooOld(_)) => {
                let text =
                    "it is not known which tokens are revoked, because the store cannot be read: retry later";
                Self::new(ErrorCode::Unavailable, text).with_reason("revocations_unknown", None)
            }
            AccessRefusal::Rate(RateExceeded::Token(wait)) => {
                let text = "the caveat `rate` of the token allows no more messages per second, nor more than that in one request: slow down";
                Self::new(ErrorCode::Saturated, text).with_reason("caveat", Some("rate")).after(wait)
            }
            AccessRefusal::Rate(RateExceeded::Table) => {
                let text = "too many tokens with a caveat `rate` are in use on this server: retry later";
                Self::new(ErrorCode::Saturated, text).with_reason("caveat", Some("rate"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};

    use super::{announced_payload, bearer_token};

    #[test]
    fn a_token_follows_the_scheme_bearer() {
        let token = |value: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
            bearer_token(&headers).map(str::to_owned)
        };
        for value in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(token(value).as_deref(), Some("abc"), "{value}");
        }
        assert_eq!(token("Bearer abc def").as_deref(), Some("abc def"), "which is no token");
        for value in ["", "Bearer", "abc", "Basic abc", "Bearerabc", "Bearer\tabc"] {
            assert_eq!(token(value), None, "{value}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[test]
    fn the_length_of_a_plain_payload_is_announced() {
        let announced = |kind: &'static str, length: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            if let Some(length) = length {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static(length));
            }
            announced_payload(&headers)
        };
        assert_eq!(announced("application/octet-stream", Some("77")), 77);
        assert_eq!(announced("application/octet-stream", None), 0);
        assert_eq!(announced("application/json", Some("77")), 0);
    }
}
