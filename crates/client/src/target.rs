//! Paths and queries of requests.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;

/// Everything else is escaped, so that no id can leave its place in the path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// The path with `value` in the place of its `{…}`.
pub(crate) fn path(template: &str, value: &str) -> Result<String, Error> {
    if value.is_empty() {
        return Err(Error::invalid("the id is empty: give one"));
    }
    let (before, rest) = template.split_once('{').unwrap_or((template, ""));
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    Ok(format!("{before}{}{after}", utf8_percent_encode(value, PLAIN)))
}

/// The path with the fields of `query` behind it.
pub(crate) fn query(path: &str, query: &impl Serialize) -> Result<String, Error> {
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else {
        return Err(Error::invalid("the query has no fields: give a struct"));
    };
    let pairs = fields.iter().filter_map(|(name, value)| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(format!("{name}={}", utf8_percent_encode(&text, PLAIN)))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable();
    Ok(if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) })
}

#[cfg(test)]
mod tests {
    use oncebox_wire::operator::{List, Reason};
    use oncebox_wire::path::{ACK, MESSAGES};

    use super::{path, query};

    #[test]
    fn an_id_stays_in_its_place() {
        assert_eq!(path(ACK, "a/b?c#d e%ü..").unwrap(), "/v1/ack/a%2Fb%3Fc%23d%20e%25%C3%BC%2E%2E");
        assert_eq!(path("/a/{b}/c", "x").unwrap(), "/a/x/c");
        assert!(path(ACK, "").is_err());
    }

    #[test]
    fn a_query_has_what_is_given() {
        let list = List {
            topic: Some("a&b".into()),
            reason: Some(Reason::Expired),
            limit: Some(5),
            ..List::default()
        };
        assert_eq!(query(MESSAGES, &list).unwrap(), "/v1/messages?limit=5&reason=expired&topic=a%26b");
        assert_eq!(query(MESSAGES, &List::default()).unwrap(), "/v1/messages");
    }
}
