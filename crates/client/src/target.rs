//! Paths and query strings of requests.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;

use crate::error::ClientError;

/// The characters that are percent-encoded, so that no id can change the structure of the path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// The path with `value` in place of its `{…}`.
pub(crate) fn path(template: &str, value: &str) -> Result<String, ClientError> {
    if value.is_empty() {
        return Err(ClientError::invalid("the id is empty: use a message id or receipt"));
    }
    let (before, rest) = template.split_once('{').unwrap_or((template, ""));
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    Ok(format!("{before}{}{after}", utf8_percent_encode(value, ENCODED)))
}

/// The path with the fields of `query` as query string.
pub(crate) fn query(path: &str, query: &impl Serialize) -> Result<String, ClientError> {
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else {
        return Err(ClientError::invalid("the query is not an object: use a struct with named fields"));
    };
    let pairs = fields.iter().filter_map(|(name, value)| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(format!("{name}={}", utf8_percent_encode(&text, ENCODED)))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable();
    Ok(if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) })
}

#[cfg(test)]
mod tests {
    use oncebox_wire::operator::{ListRequest, ReasonName};
    use oncebox_wire::path::{ACK, MESSAGES};

    use super::{path, query};

    #[test]
    fn ids_are_percent_encoded() {
        assert_eq!(path(ACK, "a/b?c#d e%ü..").unwrap(), "/v1/ack/a%2Fb%3Fc%23d%20e%25%C3%BC%2E%2E");
        assert_eq!(path("/a/{b}/c", "x").unwrap(), "/a/x/c");
        assert!(path(ACK, "").is_err());
    }

    #[test]
    fn a_query_contains_the_fields_that_are_set() {
        let list = ListRequest {
            topic: Some("a&b".into()),
            reason: Some(ReasonName::Expired),
            limit: Some(5),
            ..ListRequest::default()
        };
        assert_eq!(query(MESSAGES, &list).unwrap(), "/v1/admin/messages?limit=5&reason=expired&topic=a%26b");
        assert_eq!(query(MESSAGES, &ListRequest::default()).unwrap(), "/v1/admin/messages");
    }
}
