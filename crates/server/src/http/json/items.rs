//! The items of a list, each still in JSON: for batches in which one of them is wrong.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::fault::Whole;
use super::super::refusal::Refusal;
use super::refuse_part;

/// Items that are kept: as many as the settings allow at most, and one to see that there are more.
const ITEMS_MAX: usize = 10_001;

struct List<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for List<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;

        impl<'de> Visitor<'de> for Items {
            type Value = List<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<'de>, A::Error> {
                let mut items = Vec::new();
                while items.len() < ITEMS_MAX {
                    let Some(item) = seq.next_element()? else { return Ok(List(items)) };
                    items.push(item);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(List(items))
            }
        }

        deserializer.deserialize_seq(Items)
    }
}

/// The items of the list that a field is; never more than any settings allow, and one.
pub(in crate::http) fn list<'a>(field: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, Refusal> {
    let parsed = List::deserialize(value);
    parsed
        .map(|list| list.0)
        .map_err(|_| Refusal::schema(format!("{field} has a wrong type: expected a list")))
}

/// A field that is an object by itself.
pub(in crate::http) fn part<'a, T: Deserialize<'a>>(field: &str, value: &'a RawValue) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(value).map_err(|error| refuse_part(Whole::Field(field), &error))
}

/// One of them. Names the field that is wrong, and not the item: its place in the answer does.
pub(in crate::http) fn item<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(value).map_err(|error| refuse_part(Whole::Called("the item"), &error))
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox::SettleItem;

    use super::{ITEMS_MAX, item, list};

    #[test]
    fn each_item_has_its_own_fault() {
        let json = r#" [{"op":"ack","delivery":"d"}, {"op":"ack"}, 7, {"op":"ack","delivery":[]}, [], {"op":"ack","delivery":"\ud800"}] "#;
        let value = serde_json::from_str(json).unwrap();
        let items = list("settle", value).unwrap();
        let said: Vec<_> =
            items.iter().map(|value| item::<SettleItem>(value).map_err(|refusal| refusal.message)).collect();
        assert_eq!(said[0].as_ref().unwrap().delivery, "d");
        let said: Vec<_> = said[1..].iter().map(|said| said.as_ref().unwrap_err().as_str()).collect();
        assert_eq!(
            said,
            [
                "delivery is missing",
                "the item has a wrong type: expected an object",
                "delivery has a wrong type: expected a string",
                "the item has a wrong type: expected an object",
                "delivery is not Unicode",
            ]
        );
        let value = serde_json::from_str(r#"{"op":"ack"}"#).unwrap();
        let wrong = list("settle", value).unwrap_err();
        assert_eq!(wrong.message, "settle has a wrong type: expected a list");
    }

    #[test]
    fn more_items_than_any_settings_allow_are_not_kept() {
        for (count, kept) in
            [(ITEMS_MAX - 1, ITEMS_MAX - 1), (ITEMS_MAX, ITEMS_MAX), (3 * ITEMS_MAX, ITEMS_MAX)]
        {
            let json = format!("[{}]", vec!["1"; count].join(","));
            let value = serde_json::from_str(&json).unwrap();
            assert_eq!(list("settle", value).unwrap().len(), kept);
        }
    }
}
