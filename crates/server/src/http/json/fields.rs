//! The unparsed fields of an object, for requests that are dispatched by field name.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::api_error::ApiError;
use super::{REQUEST, parse, part_error};

/// Maximum number of fields of one object; no request has a tenth of that.
const FIELDS_MAX: usize = 64;

/// The fields of an object, in order.
pub(in crate::http) struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    if fields.len() == FIELDS_MAX {
                        return Err(A::Error::custom("has more than 64 fields: send fewer"));
                    }
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

impl<'a> Fields<'a> {
    /// Parses an object whose fields must have one of these names and must not repeat.
    pub(in crate::http) fn parse(bytes: &'a [u8], names: &[&str]) -> Result<Self, ApiError> {
        let fields: Self = parse(bytes)?;
        fields.reject_repeated(names, str::eq)?;
        if fields.0.iter().any(|(name, _)| !names.contains(&name.as_str())) {
            let known: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let text = format!("unknown field: known fields are {}", known.join(", "));
            return Err(ApiError::schema(text));
        }
        Ok(fields)
    }

    /// Returns the value of a field, if present.
    pub(in crate::http) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Rejects repeated names. The error names known fields only, because another name may be a secret.
    fn reject_repeated(&self, names: &[&str], same: fn(&str, &str) -> bool) -> Result<(), ApiError> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            if self.0[..index].iter().any(|(before, _)| same(before, name)) {
                let name = names.iter().find(|known| same(known, name)).unwrap_or(&"a field");
                return Err(ApiError::schema(format!("{name} occurs more than once: send it once")));
            }
        }
        Ok(())
    }
}

/// Parses an object with case-insensitive field names. Unknown fields are ignored, but no name may repeat.
pub(in crate::http) fn parse_any_case<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    names: &[&'static str],
) -> Result<T, ApiError> {
    let fields: Fields<'a> = parse(bytes)?;
    fields.reject_repeated(names, str::eq_ignore_ascii_case)?;
    let known = fields.0.iter().filter_map(|(name, value)| {
        let known = names.iter().find(|known| known.eq_ignore_ascii_case(name))?;
        Some((*known, *value))
    });
    let parsed = serde_path_to_error::deserialize(MapDeserializer::new(known));
    parsed.map_err(|error| part_error(REQUEST, &error))
}

#[cfg(test)]
mod tests {
    use oncebox_wire::ledger::TryBeginRequest;
    use serde_json::value::RawValue;

    use super::{Fields, parse_any_case};

    const NAMES: [&str; 3] = ["key", "owner", "leaseSeconds"];

    fn read(json: &str) -> Result<TryBeginRequest, String> {
        parse_any_case(json.as_bytes(), &NAMES).map_err(|error| error.message)
    }

    #[test]
    fn field_names_are_case_insensitive_and_unknown_fields_are_ignored() {
        let parsed = read(r#"{"KEY":"k","leaseseconds":40,"Extra":[{}]}"#).unwrap();
        assert_eq!((parsed.key.as_str(), parsed.lease_seconds), ("k", Some(40)));
        assert_eq!(read("{}").unwrap_err(), "key is missing");
        assert_eq!(
            read(r#"{"key":"k","leaseSECONDS":"secret"}"#).unwrap_err(),
            "leaseSeconds has the wrong type: expected a whole number from 0 to 9223372036854775807"
        );
        let array = read(r#"["k",null,null]"#).unwrap_err();
        assert!(array.starts_with("the request has the wrong type: expected an object"), "{array}");
        assert!(read(r#"{"key":"k""#).unwrap_err().starts_with("the JSON ends unexpectedly"));
        assert_eq!(read(r#"{"key":"\ud800"}"#).unwrap_err(), "key is not valid Unicode");
        assert!(read(r#"{"key":"k"} x"#).unwrap_err().starts_with("the body is not valid JSON"));
    }

    #[test]
    fn repeated_names_are_rejected_in_any_case() {
        for twice in
            [r#"{"key":"a","key":"b"}"#, r#"{"key":"a","KEY":"b"}"#, r#"{"Key":"a","x":1,"k\u0065y":"b"}"#]
        {
            assert_eq!(read(twice).unwrap_err(), "key occurs more than once: send it once", "{twice}");
        }
        for twice in [r#"{"key":"a","secret":1,"secret":2}"#, r#"{"key":"a","secret":1,"SECRET":2}"#] {
            assert_eq!(read(twice).unwrap_err(), "a field occurs more than once: send it once");
        }
    }

    #[test]
    fn an_object_has_a_bounded_number_of_fields() {
        let object = |count: usize| {
            let fields: Vec<_> = (0..count).map(|number| format!(r#""f{number}":0"#)).collect();
            format!(r#"{{"key":"k",{}}}"#, fields.join(","))
        };
        assert_eq!(read(&object(63)).unwrap().key, "k");
        assert!(read(&object(64)).unwrap_err().contains("has more than 64 fields"));
    }

    #[test]
    fn where_names_are_exact_unknown_fields_are_rejected() {
        let fields = |json: &'static str| Fields::parse(json.as_bytes(), &["one", "two"]);
        let found = fields(r#"{"two": [1, 2]}"#).ok().unwrap();
        assert_eq!(found.get("two").map(RawValue::get), Some("[1, 2]"));
        assert!(found.get("one").is_none());
        for (wrong, message) in [
            (r#"{"one":1,"secret":1}"#, "unknown field: known fields are `one`, `two`"),
            (r#"{"one":1,"One":1}"#, "unknown field: known fields are `one`, `two`"),
            (r#"{"one":1,"one":1}"#, "one occurs more than once: send it once"),
        ] {
            assert_eq!(fields(wrong).err().unwrap().message, message, "{wrong}");
        }
    }
}
