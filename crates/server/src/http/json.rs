//! JSON parsing with error messages that do not repeat values.

mod fields;
mod items;

use serde::Deserialize;
use serde_json::error::Category;
use serde_path_to_error::Path;

pub(super) use fields::{Fields, parse_any_case};
pub(super) use items::{item, list, part};

use super::api_error::ApiError;
use super::parse_error::{self, Root};

/// The root of a request body.
const REQUEST: Root<'static> = Root::Named("the request");

pub(super) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| schema_error::<T>(bytes, &error))
}

/// Describes why the body is not valid JSON or does not match the schema.
#[cold]
fn schema_error<'a, T: Deserialize<'a>>(bytes: &'a [u8], error: &serde_json::Error) -> ApiError {
    let position = format!("line {}, column {}", error.line(), error.column());
    ApiError::schema(match error.classify() {
        // The body is parsed a second time: tracking the path in the first pass would slow down valid requests.
        Category::Data => match error_path::<T>(bytes) {
            Some(path) => {
                format!("{} ({position})", parse_error::explain(REQUEST, &path, &error.to_string()))
            }
            None => format!("the body does not match the schema of the request ({position})"),
        },
        Category::Eof => format!("the JSON ends unexpectedly ({position})"),
        Category::Syntax | Category::Io => format!("the body is not valid JSON ({position})"),
    })
}

/// Describes an error in a part of the request, without a position.
fn part_error(root: Root<'_>, error: &serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    let (path, fault) = (error.path(), error.inner());
    ApiError::schema(match fault.classify() {
        Category::Data => parse_error::explain(root, path, &fault.to_string()),
        // It is valid JSON by its grammar, so a string contains an invalid escape.
        _ => parse_error::explain(root, path, "is not valid Unicode"),
    })
}

fn error_path<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<Path> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed: Result<T, _> = serde_path_to_error::deserialize(&mut deserializer);
    parsed.err().map(|error| error.path().clone())
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox::{RecvRequest, SendRequest, SettleItem, WorkRequest};
    use oncebox_wire::operator::SweepRequest;
    use serde::de::DeserializeOwned;

    use super::parse;

    #[track_caller]
    fn error_of<T: DeserializeOwned>(json: &str) -> String {
        parse::<T>(json.as_bytes()).err().unwrap_or_else(|| panic!("{json} is accepted")).message
    }

    /// Holds: MBX-C-8.
    #[test]
    fn errors_name_the_field_and_do_not_repeat_its_value() {
        assert_eq!(error_of::<RecvRequest>("{"), "the JSON ends unexpectedly (line 1, column 1)");
        assert_eq!(error_of::<RecvRequest>("secret"), "the body is not valid JSON (line 1, column 1)");
        assert_eq!(error_of::<RecvRequest>("{} {}"), "topic is missing (line 1, column 2)");
        assert_eq!(
            error_of::<RecvRequest>(r#"{"topic":"t"} {}"#),
            "the body is not valid JSON (line 1, column 15)"
        );
        assert_eq!(
            error_of::<RecvRequest>(r#"{"topic":"t","max_messages":"secret"}"#),
            "max_messages has the wrong type: expected a whole number from 0 to 4294967295 (line 1, column 36)"
        );
        assert_eq!(
            error_of::<RecvRequest>(r#"{"topic":"t","max_messages":-1}"#),
            "max_messages has an invalid value: expected a whole number from 0 to 4294967295 (line 1, column 30)"
        );
        assert_eq!(
            error_of::<RecvRequest>(r#"{"topic":"t","topic":"t"}"#),
            "topic occurs more than once: send it once (line 1, column 20)"
        );
        let unknown = error_of::<RecvRequest>(r#"{"topic":"t","secret":1}"#);
        assert!(unknown.starts_with("unknown field: known fields are `topic`, `visibility_ms`"), "{unknown}");
        assert_eq!(
            error_of::<SettleItem>(r#"{"op":"secret","delivery":"x"}"#),
            "op has an invalid value: expected one of `ack`, `nack`, `extend` (line 1, column 14)"
        );
        assert_eq!(
            error_of::<SweepRequest>(r#"{"dry_run":"secret"}"#),
            "dry_run has the wrong type: expected `true` or `false` (line 1, column 19)"
        );
    }

    #[test]
    fn a_nested_field_is_named_with_its_parent() {
        assert_eq!(error_of::<WorkRequest>(r#"{"recv":{}}"#), "recv.topic is missing (line 1, column 10)");
        assert_eq!(
            error_of::<WorkRequest>(r#"{"settle":[{"op":"ack","delivery":7}],"recv":{"topic":"t"}}"#),
            "settle[0].delivery has the wrong type: expected a string (line 1, column 35)"
        );
        let unknown = error_of::<WorkRequest>(r#"{"recv":{"secret":1}}"#);
        assert!(unknown.starts_with("unknown field in recv: known fields are `topic`"), "{unknown}");
        assert_eq!(
            error_of::<WorkRequest>(r#"{"recv":["t"]}"#),
            "recv has the wrong type: expected an object (line 1, column 8)"
        );
        assert_eq!(
            error_of::<RecvRequest>(r#"["t"]"#),
            "the request has the wrong type: expected an object (line 1, column 0)"
        );
    }

    /// Names and values of attributes and payloads belong to the sender.
    #[test]
    fn values_of_the_sender_are_not_repeated() {
        let send = |rest: &str| error_of::<SendRequest>(&format!(r#"{{"topic":"t","idem_key":"k",{rest}}}"#));
        let base64 = send(r#""payload_b64":"secret!""#);
        assert!(
            base64.starts_with("payload_b64 is not base64 (standard alphabet, padded) (line"),
            "{base64}"
        );
        let attrs = send(r#""payload_b64":"","attrs":{"secret":7}"#);
        assert!(attrs.starts_with("attrs has the wrong type: expected a string (line"), "{attrs}");
        let attrs = send(r#""payload_b64":"","attrs":{"secret":"1","secret":"2"}"#);
        assert!(
            attrs.starts_with("attrs contains a name more than once: send each name once (line"),
            "{attrs}"
        );
    }
}
