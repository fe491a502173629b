//! JSON: what is wrong with it, without repeating what it says.

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::{Map, Value};

use super::refusal::Refusal;

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| refuse(&error))
}

/// The same, with names of fields in any case.
pub(super) fn parse_any_case<T: DeserializeOwned>(bytes: &[u8], names: &[&str]) -> Result<T, Refusal> {
    let fields: Map<String, Value> = parse(bytes)?;
    let spelt = |name: String| {
        let known = names.iter().find(|known| known.eq_ignore_ascii_case(&name));
        known.map_or(name, |known| (*known).to_owned())
    };
    let fields = fields.into_iter().map(|(name, value)| (spelt(name), value)).collect();
    serde_json::from_value(Value::Object(fields)).map_err(|error| refuse(&error))
}

fn refuse(error: &serde_json::Error) -> Refusal {
    let place = format!("line {}, column {}", error.line(), error.column());
    Refusal::schema(match error.classify() {
        Category::Data if error.line() == 0 => without_values(&error.to_string()),
        Category::Data => format!("{} ({place})", without_values(&error.to_string())),
        Category::Eof => format!("the JSON ends too early ({place})"),
        Category::Syntax | Category::Io => format!("the body is not JSON ({place})"),
    })
}

/// What the parser says, but for what it found: that may be a secret.
fn without_values(text: &str) -> String {
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    for (start, say) in [
        ("invalid type: ", "wrong type"),
        ("invalid value: ", "wrong value"),
        ("invalid length ", "wrong length"),
    ] {
        if text.starts_with(start) {
            let expected = text.rsplit_once(", expected ").map_or("something else", |(_, expected)| expected);
            return format!("{say}: expected {expected}");
        }
    }
    if text.starts_with("unknown variant ") {
        let expected = text.rsplit_once(", expected ").map_or("another one", |(_, expected)| expected);
        return format!("wrong value: expected {expected}");
    }
    if let Some((_, expected)) =
        text.strip_prefix("unknown field ").and_then(|text| text.rsplit_once(", expected "))
    {
        return format!("a field has an unknown name: known are {}", expected.trim_start_matches("one of "));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use oncebox_wire::ledger::TryBegin;
    use oncebox_wire::mailbox::{Recv, SettleItem};

    use super::{parse, parse_any_case};

    fn told(json: &str) -> String {
        parse::<Recv>(json.as_bytes()).unwrap_err().message
    }

    /// Holds: MBX-C-8.
    #[test]
    fn mistakes_are_told_without_what_was_said() {
        assert_eq!(told("{"), "the JSON ends too early (line 1, column 1)");
        assert_eq!(told("secret"), "the body is not JSON (line 1, column 1)");
        assert_eq!(
            told(r#"{"topic":"t","max_messages":"secret"}"#),
            "wrong type: expected u32 (line 1, column 36)"
        );
        assert_eq!(told("{}"), "missing field `topic` (line 1, column 2)");
        let unknown = told(r#"{"topic":"t","secret":1}"#);
        assert!(
            unknown.starts_with("a field has an unknown name: known are `topic`, `visibility_ms`"),
            "{unknown}"
        );
        let variant = parse::<SettleItem>(br#"{"op":"secret","delivery":"x"}"#).unwrap_err().message;
        assert_eq!(variant, "wrong value: expected one of `ack`, `nack`, `extend` (line 1, column 14)");
    }

    #[test]
    fn names_in_any_case_are_the_same_and_unknown_ones_do_not_matter() {
        let names = ["key", "owner", "leaseSeconds"];
        let parsed: TryBegin =
            parse_any_case(br#"{"KEY":"k","leaseseconds":40,"Extra":[]}"#, &names).unwrap();
        assert_eq!((parsed.key.as_str(), parsed.lease_seconds), ("k", Some(40)));
        assert_eq!(parse_any_case::<TryBegin>(b"{}", &names).unwrap_err().message, "missing field `key`");
    }
}
