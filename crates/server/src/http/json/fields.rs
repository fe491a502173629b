//! The fields of an object, each still in JSON: for those who decide by their names.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::refusal::Refusal;
use super::{REQUEST, parse, refuse_part};

/// Fields of one object, at most: no request of ours has a tenth of that.
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
    /// All fields, each of which has one of these names, and comes once.
    pub(in crate::http) fn parse(bytes: &'a [u8], names: &[&str]) -> Result<Self, Refusal> {
        let fields: Self = parse(bytes)?;
        fields.must_differ(names, str::eq)?;
        if fields.0.iter().any(|(name, _)| !names.contains(&name.as_str())) {
            let known: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let text = format!("a field has an unknown name: known are {}", known.join(", "));
            return Err(Refusal::schema(text));
        }
        Ok(fields)
    }

    /// The value of a field, if it is there.
    pub(in crate::http) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Refuses a name that comes twice; names only those that are known, for another may be a secret.
    fn must_differ(&self, names: &[&str], same: fn(&str, &str) -> bool) -> Result<(), Refusal> {
        for (place, (name, _)) in self.0.iter().enumerate() {
            if self.0[..place].iter().any(|(before, _)| same(before, name)) {
                let name = names.iter().find(|known| same(known, name)).unwrap_or(&"a field");
                return Err(Refusal::schema(format!("{name} is there more than once: send it once")));
            }
        }
        Ok(())
    }
}

/// Parses an object whose names have any case. Those that are unknown do not matter, but none may come twice.
pub(in crate::http) fn parse_any_case<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    names: &[&'static str],
) -> Result<T, Refusal> {
    let fields: Fields<'a> = parse(bytes)?;
    fields.must_differ(names, str::eq_ignore_ascii_case)?;
    let known = fields.0.iter().filter_map(|(name, value)| {
        let known = names.iter().find(|known| known.eq_ignore_ascii_case(name))?;
        Some((*known, *value))
    });
    let parsed = serde_path_to_error::deserialize(MapDeserializer::new(known));
    parsed.map_err(|error| refuse_part(REQUEST, &error))
}

#[cfg(test)]
mod tests {
    use oncebox_wire::ledger::TryBegin;
    use serde_json::value::RawValue;

    use super::{Fields, parse_any_case};

    const NAMES: [&str; 3] = ["key", "owner", "leaseSeconds"];

    fn read(json: &str) -> Result<TryBegin, String> {
        parse_any_case(json.as_bytes(), &NAMES).map_err(|refusal| refusal.message)
    }

    #[test]
    fn names_in_any_case_are_the_same_and_unknown_ones_do_not_matter() {
        let parsed = read(r#"{"KEY":"k","leaseseconds":40,"Extra":[{}]}"#).unwrap();
        assert_eq!((parsed.key.as_str(), parsed.lease_seconds), ("k", Some(40)));
        assert_eq!(read("{}").unwrap_err(), "key is missing");
        assert_eq!(
            read(r#"{"key":"k","leaseSECONDS":"secret"}"#).unwrap_err(),
            "leaseSeconds has a wrong type: expected a whole number from 0 to 9223372036854775807"
        );
        let array = read(r#"["k",null,null]"#).unwrap_err();
        assert!(array.starts_with("the request has a wrong type: expected an object"), "{array}");
        assert!(read(r#"{"key":"k""#).unwrap_err().starts_with("the JSON ends too early"));
        assert_eq!(read(r#"{"key":"\ud800"}"#).unwrap_err(), "key is not Unicode");
        assert!(read(r#"{"key":"k"} x"#).unwrap_err().starts_with("the body is not JSON"));
    }

    #[test]
    fn a_name_comes_once_in_whichever_case() {
        for twice in
            [r#"{"key":"a","key":"b"}"#, r#"{"key":"a","KEY":"b"}"#, r#"{"Key":"a","x":1,"k\u0065y":"b"}"#]
        {
            assert_eq!(read(twice).unwrap_err(), "key is there more than once: send it once", "{twice}");
        }
        for twice in [r#"{"key":"a","secret":1,"secret":2}"#, r#"{"key":"a","secret":1,"SECRET":2}"#] {
            assert_eq!(read(twice).unwrap_err(), "a field is there more than once: send it once");
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
    fn where_names_are_exact_an_unknown_one_is_refused() {
        let fields = |json: &'static str| Fields::parse(json.as_bytes(), &["one", "two"]);
        let found = fields(r#"{"two": [1, 2]}"#).ok().unwrap();
        assert_eq!(found.get("two").map(RawValue::get), Some("[1, 2]"));
        assert!(found.get("one").is_none());
        for (wrong, said) in [
            (r#"{"one":1,"secret":1}"#, "a field has an unknown name: known are `one`, `two`"),
            (r#"{"one":1,"One":1}"#, "a field has an unknown name: known are `one`, `two`"),
            (r#"{"one":1,"one":1}"#, "one is there more than once: send it once"),
        ] {
            assert_eq!(fields(wrong).err().unwrap().message, said, "{wrong}");
        }
    }
}
