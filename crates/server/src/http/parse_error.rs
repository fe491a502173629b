//! Error messages for parse failures. They name the field as the caller wrote it and never repeat its value, which may
//! be a secret.

use serde_path_to_error::{Path, Segment};

/// Names inside this field are chosen by the caller, and not repeated.
const CALLER_NAMES: &str = "attrs";

/// What the path to a failed value is relative to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root<'a> {
    /// Something that is not a field, with a description.
    Named(&'a str),
    Field(&'a str),
}

/// Describes what a parser reports about the value at a path.
pub(super) fn explain(root: Root<'_>, path: &Path, text: &str) -> String {
    let text = without_position(text);
    let unknown = text.starts_with("unknown field ");
    // The path ends in the unknown name, which is chosen by the caller.
    let known = path.iter().len().saturating_sub(usize::from(unknown));
    let (within, called) = match root {
        Root::Named(called) => ("", called),
        Root::Field(field) => (field, field),
    };
    let name = name(within, path.iter().take(known));
    let subject = if name.is_empty() { called } else { &name };
    for (start, fault) in [
        ("invalid type: ", "the wrong type"),
        ("invalid value: ", "an invalid value"),
        ("unknown variant ", "an invalid value"),
    ] {
        if text.starts_with(start) {
            return format!("{subject} has {fault}: expected {}", expected(text));
        }
    }
    if let Some(length) = text.strip_prefix("invalid length ") {
        return format!("{subject} has an invalid length: expected {}", expected(length));
    }
    if let Some(field) = quoted(text, "missing field ") {
        return format!("{} is missing", join(&name, field));
    }
    if let Some(field) = quoted(text, "duplicate field ") {
        return format!("{} occurs more than once: send it once", join(&name, field));
    }
    if unknown {
        let known = text.rsplit_once(", expected ").map_or("none", |(_, known)| known);
        let parent = if name.is_empty() { String::new() } else { format!(" in {name}") };
        return format!("unknown field{parent}: known fields are {}", known.trim_start_matches("one of "));
    }
    match text {
        // Messages of `parse` for query parameters; none of them contains the value.
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            format!("{subject} has an invalid value: expected a whole number")
        }
        "number too large to fit in target type" => {
            format!("{subject} has an invalid value: the number is too large")
        }
        "provided string was not `true` or `false`" => {
            format!("{subject} has an invalid value: expected `true` or `false`")
        }
        _ => format!("{subject} {text}"),
    }
}

/// Removes the position that some parsers append.
fn without_position(text: &str) -> &str {
    let is_position = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(" at line ") {
        Some((text, place)) if place.split(" column ").all(is_position) => text,
        _ => text,
    }
}

/// The expected type, without Rust names.
fn expected(text: &str) -> &str {
    match text.rsplit_once(", expected ").map_or("another value", |(_, expected)| expected) {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 9223372036854775807",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list",
        "a map" => "an object",
        text if text.starts_with("struct ") => "an object",
        text => text,
    }
}

fn quoted<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.strip_prefix('`')?.strip_suffix('`')
}

fn join(name: &str, field: &str) -> String {
    if name.is_empty() { field.to_owned() } else { format!("{name}.{field}") }
}

/// The name of the field at a path, relative to another field.
fn name<'a>(within: &str, path: impl Iterator<Item = &'a Segment>) -> String {
    let mut name = within.to_owned();
    for segment in path {
        match segment {
            Segment::Seq { index } => name = format!("{name}[{index}]"),
            Segment::Map { key } => {
                name = join(&name, key);
                if key == CALLER_NAMES {
                    break;
                }
            }
            Segment::Enum { .. } | Segment::Unknown => break,
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, MapDeserializer};

    use super::{Root, explain};

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        #[expect(dead_code, reason = "only read")]
        word: Word,
    }

    fn message(name: &str, value: &str) -> String {
        let pairs = MapDeserializer::<_, Error>::new([(name, value)].into_iter());
        let error = serde_path_to_error::deserialize::<_, Asked>(pairs.into_deserializer()).unwrap_err();
        explain(Root::Named("the query string"), error.path(), &error.inner().to_string())
    }

    /// A value may look like a message of the parser.
    #[test]
    fn a_value_or_name_that_reads_like_a_parser_message_is_not_repeated() {
        for hostile in
            ["secret", "secret at line 1 column 2", "x`, expected secret", "secret at line x", ", expected "]
        {
            assert_eq!(message("word", hostile), "word has an invalid value: expected `one`", "{hostile}");
            assert_eq!(message(hostile, ""), "unknown field: known fields are `word`", "{hostile}");
        }
    }
}
