//! How requests are read: an object is an object, a word is a text, and no name comes twice.
//!
//! A derived implementation takes more than that: an array for a struct, whose elements are the fields in order, and an object
//! with one field for a word. Two programs that read the same request must not understand it differently.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::whole::Fields;

/// Reads a struct from an object, and from nothing else.
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

/// Reads an enum without content from a text, and from nothing else.
pub(crate) struct Word<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Word<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(Text(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Text<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Text<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_enum(text.into_deserializer())
    }
}

/// Reads names and values, and refuses a name that comes twice: which of its values counts would be a matter of taste.
pub(crate) fn unique<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with texts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = BTreeMap::new();
            while let Some((name, value)) = map.next_entry()? {
                if pairs.insert(name, value).is_some() {
                    return Err(A::Error::custom("has a name more than once: send each name once"));
                }
            }
            Ok(pairs)
        }
    }

    deserializer.deserialize_map(Pairs)
}

/// Types whose derives say `remote = "Self"`: reads them by way of one of the above.
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

    use crate::ledger::{MarkProcessed, Release, TryBegin};
    use crate::mailbox::{Ack, Extend, Nack, Op, Recv, Send, SendBatch, Settle, SettleItem, Work};
    use crate::operator::{Namespace, Reason, Redrive, State, Sweep};

    /// It is read from an object, and not from the array of the same values.
    #[track_caller]
    fn is_an_object<T: DeserializeOwned>(object: &str, array: &str) {
        serde_json::from_str::<T>(object).unwrap_or_else(|error| panic!("{object}: {error}"));
        let error = serde_json::from_str::<T>(array).err().unwrap_or_else(|| panic!("{array} is taken"));
        assert!(error.to_string().contains("sequence, expected struct"), "{array}: {error}");
    }

    #[test]
    fn arrays_are_not_taken_for_objects() {
        is_an_object::<Send>(
            r#"{"topic":"t","idem_key":"k","payload_b64":""}"#,
            r#"["t","k","",null,{},null,null,null]"#,
        );
        is_an_object::<SendBatch>(r#"{"messages":[]}"#, "[[]]");
        is_an_object::<Recv>(r#"{"topic":"t"}"#, r#"["t",null,null,null,null,null]"#);
        is_an_object::<Ack>("{}", "[]");
        is_an_object::<Nack>(r#"{"reason":"r"}"#, r#"["r"]"#);
        is_an_object::<Extend>(r#"{"visibility_ms":250}"#, "[250]");
        is_an_object::<SettleItem>(r#"{"op":"ack","delivery":"d"}"#, r#"["ack","d",null,null]"#);
        is_an_object::<Settle>(r#"{"settle":[]}"#, "[[]]");
        is_an_object::<Work>(r#"{"recv":{"topic":"t"}}"#, r#"[[],{"topic":"t"}]"#);
        is_an_object::<Work>(r#"{"recv":{"topic":"t"}}"#, r#"{"recv":["t",null,null,null,null,null]}"#);
        is_an_object::<Redrive>(r#"{"dry_run":true}"#, "[[],null,null,null,true]");
        is_an_object::<Sweep>(r#"{"dry_run":true}"#, "[null,[],null,null,null,null,null,true,false,null]");
        is_an_object::<TryBegin>(r#"{"key":"k"}"#, r#"["k",null,null]"#);
        is_an_object::<MarkProcessed>(r#"{"key":"k"}"#, r#"["k",null]"#);
        is_an_object::<Release>(r#"{"key":"k","leaseId":"l"}"#, r#"["k","l"]"#);
    }

    #[track_caller]
    fn is_a_word<T: DeserializeOwned>(word: &str) {
        serde_json::from_str::<T>(&format!("\"{word}\"")).unwrap();
        for other in [format!(r#"{{"{word}":null}}"#), format!(r#"["{word}"]"#), "0".to_owned()] {
            let error = serde_json::from_str::<T>(&other).err().unwrap_or_else(|| panic!("{other} is taken"));
            assert!(error.to_string().contains("expected a string"), "{other}: {error}");
        }
    }

    #[test]
    fn objects_are_not_taken_for_words() {
        is_a_word::<Op>("nack");
        is_a_word::<Namespace>("inbox");
        is_a_word::<State>("dead");
        is_a_word::<Reason>("expired");
        let error = serde_json::from_str::<Op>("\"drop\"").unwrap_err().to_string();
        assert!(error.contains("unknown variant") && error.contains("`ack`"), "{error}");
    }

    #[test]
    fn a_name_that_comes_twice_is_refused_wherever_it_is() {
        for twice in [
            r#"{"topic":"t","topic":"t","idem_key":"k","payload_b64":""}"#,
            r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"a":"1","a":"1"}}"#,
            r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"a":"1","b":"1","\u0061":"2"}}"#,
            r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{},"attrs":{}}"#,
        ] {
            serde_json::from_str::<Send>(twice).unwrap_err();
        }
        let once = r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"a":"1","A":"1"}}"#;
        assert_eq!(serde_json::from_str::<Send>(once).unwrap().attrs.len(), 2);
    }

    /// What is written is what is read.
    #[test]
    fn requests_survive_json() {
        let item = SettleItem { op: Op::Extend, delivery: "d".to_owned(), ..SettleItem::default() };
        let json = serde_json::to_string(&Settle { settle: vec![item.clone()] }).unwrap();
        assert_eq!(json, r#"{"settle":[{"op":"extend","delivery":"d"}]}"#);
        assert_eq!(serde_json::from_str::<Settle>(&json).unwrap().settle, [item]);
    }
}
