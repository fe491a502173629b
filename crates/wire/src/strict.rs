//! Strict deserialization of requests: a struct only from an object, a unit enum only from a string, no duplicate
//! names.
//!
//! A derived implementation accepts more: an array with the fields in order for a struct, and an object with one field
//! for a unit enum. Two programs that read the same request must not interpret it differently.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::integer::Fields;

/// Deserializes a struct only from an object.
pub(crate) struct Object<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Object<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Fields(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Deserializes an enum of unit variants only from a string.
pub(crate) struct UnitEnum<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for UnitEnum<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(EnumVisitor(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct EnumVisitor<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for EnumVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_enum(text.into_deserializer())
    }
}

/// Deserializes a map of strings, and rejects duplicate names, because it would be unclear which value applies.
pub(crate) fn unique<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with string values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = BTreeMap::new();
            while let Some((name, value)) = map.next_entry()? {
                if pairs.insert(name, value).is_some() {
                    return Err(A::Error::custom("contains a name more than once: send each name once"));
                }
            }
            Ok(pairs)
        }
    }

    deserializer.deserialize_map(Pairs)
}

/// For types whose derives have `remote = "Self"`: deserializes them through one of the deserializers above.
macro_rules! read_as {
    ($way:ident: $($name:ident),+ $(,)?) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize($crate::strict::$way(deserializer))
            }
        }
    )+};
}

pub(crate) use read_as;

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use crate::ledger::{MarkProcessedRequest, ReleaseRequest, TryBeginRequest};
    use crate::mailbox::{
        AckRequest, ExtendRequest, NackRequest, RecvRequest, SendBatchRequest, SendRequest,
        SettleBatchRequest, SettleItem, SettleOp, WorkRequest,
    };
    use crate::operator::{NamespaceName, ReasonName, RedriveRequest, StateName, SweepRequest};

    /// Checks that a type is deserialized from an object, and not from the array of the same values.
    #[track_caller]
    fn is_an_object<T: DeserializeOwned>(object: &str, array: &str) {
        serde_json::from_str::<T>(object).unwrap_or_else(|error| panic!("{object}: {error}"));
        let error = serde_json::from_str::<T>(array).err().unwrap_or_else(|| panic!("{array} is accepted"));
        assert!(error.to_string().contains("sequence, expected struct"), "{array}: {error}");
    }

    #[test]
    fn arrays_are_rejected_for_structs() {
        is_an_object::<SendRequest>(
            r#"{"topic":"t","idem_key":"k","payload_b64":""}"#,
            r#"["t","k","",null,{},null,null,null]"#,
        );
        is_an_object::<SendBatchRequest>(r#"{"messages":[]}"#, "[[]]");
        is_an_object::<RecvRequest>(r#"{"topic":"t"}"#, r#"["t",null,null,null,null,null]"#);
        is_an_object::<AckRequest>("{}", "[]");
        is_an_object::<NackRequest>(r#"{"reason":"r"}"#, r#"["r"]"#);
        is_an_object::<ExtendRequest>(r#"{"visibility_ms":250}"#, "[250]");
        is_an_object::<SettleItem>(r#"{"op":"ack","delivery":"d"}"#, r#"["ack","d",null,null]"#);
        is_an_object::<SettleBatchRequest>(r#"{"settle":[]}"#, "[[]]");
        is_an_object::<WorkRequest>(r#"{"recv":{"topic":"t"}}"#, r#"[[],{"topic":"t"}]"#);
        is_an_object::<WorkRequest>(
            r#"{"recv":{"topic":"t"}}"#,
            r#"{"recv":["t",null,null,null,null,null]}"#,
        );
        is_an_object::<RedriveRequest>(r#"{"dry_run":true}"#, "[[],null,null,null,true]");
        is_an_object::<SweepRequest>(
            r#"{"dry_run":true}"#,
            "[null,[],null,null,null,null,null,true,false,null]",
        );
        is_an_object::<TryBeginRequest>(r#"{"key":"k"}"#, r#"["k",null,null]"#);
        is_an_object::<MarkProcessedRequest>(r#"{"key":"k"}"#, r#"["k",null]"#);
        is_an_object::<ReleaseRequest>(r#"{"key":"k","leaseId":"l"}"#, r#"["k","l"]"#);
    }

    #[track_caller]
    fn is_a_string<T: DeserializeOwned>(text: &str) {
        serde_json::from_str::<T>(&format!("\"{text}\"")).unwrap();
        for other in [format!(r#"{{"{text}":null}}"#), format!(r#"["{text}"]"#), "0".to_owned()] {
            let error =
                serde_json::from_str::<T>(&other).err().unwrap_or_else(|| panic!("{other} is accepted"));
            assert!(error.to_string().contains("expected a string"), "{other}: {error}");
        }
    }

    #[test]
    fn objects_are_rejected_for_unit_enums() {
        is_a_string::<SettleOp>("nack");
        is_a_string::<NamespaceName>("inbox");
        is_a_string::<StateName>("dead");
        is_a_string::<ReasonName>("expired");
        let error = serde_json::from_str::<SettleOp>("\"drop\"").unwrap_err().to_string();
        assert!(error.contains("unknown variant") && error.contains("`ack`"), "{error}");
    }

    #[test]
    fn duplicate_names_are_rejected_everywhere() {
        for twice in [
            r#"{"topic":"t","topic":"t","idem_key":"k","payload_b64":""}"#,
            r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"a":"1","a":"1"}}"#,
            r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"a":"1","b":"1","\u0061":"2"}}"#,
            r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{},"attrs":{}}"#,
        ] {
            serde_json::from_str::<SendRequest>(twice).unwrap_err();
        }
        let once = r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"a":"1","A":"1"}}"#;
        assert_eq!(serde_json::from_str::<SendRequest>(once).unwrap().attrs.len(), 2);
    }

    #[test]
    fn requests_survive_a_round_trip_through_json() {
        let item = SettleItem { op: SettleOp::Extend, delivery: "d".to_owned(), ..SettleItem::default() };
        let json = serde_json::to_string(&SettleBatchRequest { settle: vec![item.clone()] }).unwrap();
        assert_eq!(json, r#"{"settle":[{"op":"extend","delivery":"d"}]}"#);
        assert_eq!(serde_json::from_str::<SettleBatchRequest>(&json).unwrap().settle, [item]);
    }
}
