//! JSON: what is wrong with it, without repeating what it says.

mod fields;
mod items;

use serde::Deserialize;
use serde_json::error::Category;
use serde_path_to_error::Path;

pub(super) use fields::{Fields, parse_any_case};
pub(super) use items::{item, list, part};

use super::fault::{self, Whole};
use super::refusal::Refusal;

/// What is parsed as a whole.
const REQUEST: Whole<'static> = Whole::Called("the request");

pub(super) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| refuse::<T>(bytes, &error))
}

/// Why something is not JSON, or not what was expected.
#[cold]
fn refuse<'a, T: Deserialize<'a>>(bytes: &'a [u8], error: &serde_json::Error) -> Refusal {
    let place = format!("line {}, column {}", error.line(), error.column());
    Refusal::schema(match error.classify() {
        // It is read once more: to know at all times where it is would cost those whose requests are right.
        Category::Data => match path_to_fault::<T>(bytes) {
            Some(path) => format!("{} ({place})", fault::explain(REQUEST, &path, &error.to_string())),
            None => format!("the body is not what the request takes ({place})"),
        },
        Category::Eof => format!("the JSON ends too early ({place})"),
        Category::Syntax | Category::Io => format!("the body is not JSON ({place})"),
    })
}

/// The same, of a part of the request: where it is, the caller knows.
fn refuse_part(whole: Whole<'_>, error: &serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let (path, fault) = (error.path(), error.inner());
    Refusal::schema(match fault.classify() {
        Category::Data => fault::explain(whole, path, &fault.to_string()),
        // It is JSON by its grammar: a text in it escapes what is no character.
        _ => fault::explain(whole, path, "is not Unicode"),
    })
}

fn path_to_fault<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<Path> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed: Result<T, _> = serde_path_to_error::deserialize(&mut deserializer);
    parsed.err().map(|error| error.path().clone())
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox::{Recv, Send, SettleItem, Work};
    use oncebox_wire::operator::Sweep;
    use serde::de::DeserializeOwned;

    use super::parse;

    #[track_caller]
    fn said<T: DeserializeOwned>(json: &str) -> String {
        parse::<T>(json.as_bytes()).err().unwrap_or_else(|| panic!("{json} is taken")).message
    }

    /// Holds: MBX-C-8.
    #[test]
    fn mistakes_name_the_field_and_not_what_was_said() {
        assert_eq!(said::<Recv>("{"), "the JSON ends too early (line 1, column 1)");
        assert_eq!(said::<Recv>("secret"), "the body is not JSON (line 1, column 1)");
        assert_eq!(said::<Recv>("{} {}"), "topic is missing (line 1, column 2)");
        assert_eq!(said::<Recv>(r#"{"topic":"t"} {}"#), "the body is not JSON (line 1, column 15)");
        assert_eq!(
            said::<Recv>(r#"{"topic":"t","max_messages":"secret"}"#),
            "max_messages has a wrong type: expected a whole number from 0 to 4294967295 (line 1, column 36)"
        );
        assert_eq!(
            said::<Recv>(r#"{"topic":"t","max_messages":-1}"#),
            "max_messages has a wrong value: expected a whole number from 0 to 4294967295 (line 1, column 30)"
        );
        assert_eq!(
            said::<Recv>(r#"{"topic":"t","topic":"t"}"#),
            "topic is there more than once: send it once (line 1, column 20)"
        );
        let unknown = said::<Recv>(r#"{"topic":"t","secret":1}"#);
        assert!(
            unknown.starts_with("a field has an unknown name: known are `topic`, `visibility_ms`"),
            "{unknown}"
        );
        assert_eq!(
            said::<SettleItem>(r#"{"op":"secret","delivery":"x"}"#),
            "op has a wrong value: expected one of `ack`, `nack`, `extend` (line 1, column 14)"
        );
        assert_eq!(
            said::<Sweep>(r#"{"dry_run":"secret"}"#),
            "dry_run has a wrong type: expected `true` or `false` (line 1, column 19)"
        );
    }

    #[test]
    fn a_field_inside_another_is_named_with_it() {
        assert_eq!(said::<Work>(r#"{"recv":{}}"#), "recv.topic is missing (line 1, column 10)");
        assert_eq!(
            said::<Work>(r#"{"settle":[{"op":"ack","delivery":7}],"recv":{"topic":"t"}}"#),
            "settle[0].delivery has a wrong type: expected a string (line 1, column 35)"
        );
        let unknown = said::<Work>(r#"{"recv":{"secret":1}}"#);
        assert!(unknown.starts_with("a field of recv has an unknown name: known are `topic`"), "{unknown}");
        assert_eq!(
            said::<Work>(r#"{"recv":["t"]}"#),
            "recv has a wrong type: expected an object (line 1, column 8)"
        );
        assert_eq!(
            said::<Recv>(r#"["t"]"#),
            "the request has a wrong type: expected an object (line 1, column 0)"
        );
    }

    /// Names and values of attributes are the sender's, and so is a payload.
    #[test]
    fn what_a_sender_says_is_not_repeated() {
        let send = |rest: &str| said::<Send>(&format!(r#"{{"topic":"t","idem_key":"k",{rest}}}"#));
        let base64 = send(r#""payload_b64":"secret!""#);
        assert!(
            base64.starts_with("payload_b64 is not base64 (standard alphabet, padded) (line"),
            "{base64}"
        );
        let attrs = send(r#""payload_b64":"","attrs":{"secret":7}"#);
        assert!(attrs.starts_with("attrs has a wrong type: expected a string (line"), "{attrs}");
        let attrs = send(r#""payload_b64":"","attrs":{"secret":"1","secret":"2"}"#);
        assert!(attrs.starts_with("attrs has a name more than once: send each name once (line"), "{attrs}");
    }
}
