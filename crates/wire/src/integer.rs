//! Integers in requests: `250` and `250.0` are the same integer, as in JSON Schema, and the maximum is 2^63 − 1,
//! because the OpenAPI document declares `int64`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor};

/// The largest integer in a request.
const MAX: u64 = i64::MAX as u64;
/// The error text for a larger one.
const EXPECTED: &str = "a whole number up to 9223372036854775807";
/// Floating-point numbers from here on do not fit into a `u64`.
const FLOAT_END: f64 = 18_446_744_073_709_551_616.0;

/// Visits an object whose fields are deserialized through [`Field`].
pub(crate) struct Fields<V>(pub(crate) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(FieldAccess(map))
    }
}

struct FieldAccess<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FieldAccess<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(FieldSeed(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

struct FieldSeed<T>(T);

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for FieldSeed<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Field(deserializer))
    }
}

/// Deserializes a field; everything except integers is left to the inner deserializer.
struct Field<D>(D);

/// Methods that forward to the inner deserializer.
macro_rules! forward {
    ($($method:ident($($argument:ident: $kind:ty),*)),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* visitor)
        }
    )+};
}

/// Methods that deserialize an integer.
macro_rules! integer {
    ($($method:ident),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Integer(visitor))
        }
    )+};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Field<D> {
    type Error = D::Error;

    integer!(
        deserialize_i8,
        deserialize_i16,
        deserialize_i32,
        deserialize_i64,
        deserialize_u8,
        deserialize_u16,
        deserialize_u32,
        deserialize_u64,
    );

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Optional(visitor))
    }

    forward!(
        deserialize_any(),
        deserialize_bool(),
        deserialize_i128(),
        deserialize_u128(),
        deserialize_f32(),
        deserialize_f64(),
        deserialize_char(),
        deserialize_str(),
        deserialize_string(),
        deserialize_bytes(),
        deserialize_byte_buf(),
        deserialize_unit(),
        deserialize_unit_struct(name: &'static str),
        deserialize_newtype_struct(name: &'static str),
        deserialize_seq(),
        deserialize_tuple(len: usize),
        deserialize_tuple_struct(name: &'static str, len: usize),
        deserialize_map(),
        deserialize_struct(name: &'static str, fields: &'static [&'static str]),
        deserialize_enum(name: &'static str, variants: &'static [&'static str]),
        deserialize_identifier(),
        deserialize_ignored_any(),
    );

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Visits an optional field.
struct Optional<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Optional<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Field(deserializer))
    }
}

/// Visits an integer.
struct Integer<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Integer<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V::Value, E> {
        self.0.visit_i64(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V::Value, E> {
        if number > MAX {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &EXPECTED));
        }
        self.0.visit_u64(number)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only integers in range are converted"
    )]
    fn visit_f64<E: Error>(self, number: f64) -> Result<V::Value, E> {
        if number.fract() == 0.0 && (0.0..FLOAT_END).contains(&number) {
            return self.visit_u64(number as u64);
        }
        self.0.visit_f64(number)
    }
}

#[cfg(test)]
mod tests {
    use crate::ledger::TryBeginRequest;
    use crate::mailbox::{ExtendRequest, RecvRequest, WorkRequest};

    #[test]
    fn an_integer_may_be_written_with_a_zero_fraction() {
        for (json, millis) in [("250", 250), ("250.0", 250), ("2.5e2", 250), ("0.0", 0), ("-0.0", 0)] {
            let extend: ExtendRequest =
                serde_json::from_str(&format!(r#"{{"visibility_ms":{json}}}"#)).unwrap();
            assert_eq!(extend.visibility_ms, millis, "{json}");
        }
        let recv: RecvRequest =
            serde_json::from_str(r#"{"topic":"t","max_messages":7.0,"wait_ms":null}"#).unwrap();
        assert_eq!((recv.max_messages, recv.wait_ms), (Some(7), None));
        let work: WorkRequest =
            serde_json::from_str(r#"{"recv":{"topic":"t","visibility_ms":1e3}}"#).unwrap();
        assert_eq!(work.recv.visibility_ms, Some(1_000), "in a nested object");
        let begin: TryBeginRequest = serde_json::from_str(r#"{"key":"k","leaseSeconds":40.0}"#).unwrap();
        assert_eq!(begin.lease_seconds, Some(40));
    }

    #[test]
    fn fractions_and_too_large_numbers_are_rejected() {
        for number in ["1.5", "-1", "-1.0", "1e300", "\"1\"", "true", "[]", "1e-7"] {
            serde_json::from_str::<ExtendRequest>(&format!(r#"{{"visibility_ms":{number}}}"#)).unwrap_err();
            serde_json::from_str::<RecvRequest>(&format!(r#"{{"topic":"t","max_messages":{number}}}"#))
                .unwrap_err();
        }
        serde_json::from_str::<RecvRequest>(r#"{"topic":"t","max_messages":4294967296.0}"#).unwrap_err();
        let most = |number: &str| {
            serde_json::from_str::<RecvRequest>(&format!(r#"{{"topic":"t","max_bytes":{number}}}"#))
        };
        assert_eq!(most("9223372036854775807").unwrap().max_bytes, Some(i64::MAX as u64));
        for number in
            ["9223372036854775808", "9223372036854775808.0", "18446744073709551615", "18446744073709551616"]
        {
            let error = most(number).unwrap_err().to_string();
            assert!(
                error.contains("whole number up to") || error.contains("expected u64"),
                "{number}: {error}"
            );
        }
    }
}
