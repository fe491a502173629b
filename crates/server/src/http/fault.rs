//! What a parser found wrong, in words that name the field as the caller wrote it and never repeat its value, which may be a
//! secret.

use serde_path_to_error::{Path, Segment};

/// Names below this one are the caller's own, and part of what it said.
const OWN_NAMES: &str = "attrs";

/// What a path to a fault begins in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whole<'a> {
    /// Something that is no field.
    Called(&'a str),
    Field(&'a str),
}

/// The fault in words, of what a parser says about the value at a path.
pub(super) fn explain(whole: Whole<'_>, path: &Path, text: &str) -> String {
    let text = without_place(text);
    let unknown = text.starts_with("unknown field ");
    // The path leads to what has the unknown name, which is the caller's own.
    let known = path.iter().len().saturating_sub(usize::from(unknown));
    let (within, called) = match whole {
        Whole::Called(called) => ("", called),
        Whole::Field(field) => (field, field),
    };
    let name = name(within, path.iter().take(known));
    let subject = if name.is_empty() { called } else { &name };
    for (start, fault) in
        [("invalid type: ", "type"), ("invalid value: ", "value"), ("unknown variant ", "value")]
    {
        if text.starts_with(start) {
            return format!("{subject} has a wrong {fault}: expected {}", expected(text));
        }
    }
    if let Some(length) = text.strip_prefix("invalid length ") {
        return format!("{subject} has a wrong length: expected {}", expected(length));
    }
    if let Some(field) = quoted(text, "missing field ") {
        return format!("{} is missing", join(&name, field));
    }
    if let Some(field) = quoted(text, "duplicate field ") {
        return format!("{} is there more than once: send it once", join(&name, field));
    }
    if unknown {
        let known = text.rsplit_once(", expected ").map_or("none", |(_, known)| known);
        let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
        return format!("a field{of} has an unknown name: known are {}", known.trim_start_matches("one of "));
    }
    match text {
        // What `parse` says of a number or a word in an address: all of these are without the value.
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            format!("{subject} has a wrong value: expected a whole number")
        }
        "number too large to fit in target type" => format!("{subject} has a wrong value: it is too large"),
        "provided string was not `true` or `false`" => {
            format!("{subject} has a wrong value: expected `true` or `false`")
        }
        _ => format!("{subject} {text}"),
    }
}

/// Leaves out where in the text it is, which some parsers say.
fn without_place(text: &str) -> &str {
    let is_place = |place: &str| place.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(" at line ") {
        Some((text, place)) if place.split(" column ").all(is_place) => text,
        _ => text,
    }
}

/// What was expected, for those who do not write Rust.
fn expected(text: &str) -> &str {
    match text.rsplit_once(", expected ").map_or("something else", |(_, expected)| expected) {
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

/// The field that a path leads to, within another.
fn name<'a>(within: &str, path: impl Iterator<Item = &'a Segment>) -> String {
    let mut name = within.to_owned();
    for segment in path {
        match segment {
            Segment::Seq { index } => name = format!("{name}[{index}]"),
            Segment::Map { key } => {
                name = join(&name, key);
                if key == OWN_NAMES {
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

    use super::{Whole, explain};

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

    fn said(name: &str, value: &str) -> String {
        let pairs = MapDeserializer::<_, Error>::new([(name, value)].into_iter());
        let error = serde_path_to_error::deserialize::<_, Asked>(pairs.into_deserializer()).unwrap_err();
        explain(Whole::Called("the address"), error.path(), &error.inner().to_string())
    }

    /// What a caller sends may look like what a parser says.
    #[test]
    fn a_value_or_name_that_reads_like_a_fault_is_not_repeated() {
        for hostile in
            ["secret", "secret at line 1 column 2", "x`, expected secret", "secret at line x", ", expected "]
        {
            assert_eq!(said("word", hostile), "word has a wrong value: expected `one`", "{hostile}");
            assert_eq!(said(hostile, ""), "a field has an unknown name: known are `word`", "{hostile}");
        }
    }
}
