//! The unparsed items of a list, for batches in which some items are invalid.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::api_error::ApiError;
use super::super::parse_error::Root;
use super::part_error;

/// Maximum number of items that are kept: the maximum of the setting, and one more to detect that there are too many.
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

/// Returns the items of a list field, at most [`ITEMS_MAX`].
pub(in crate::http) fn list<'a>(field: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, ApiError> {
    let parsed = List::deserialize(value);
    parsed
        .map(|list| list.0)
        .map_err(|_| ApiError::schema(format!("{field} has the wrong type: expected a list")))
}

/// Parses a field that is an object.
pub(in crate::http) fn part<'a, T: Deserialize<'a>>(field: &str, value: &'a RawValue) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| part_error(Root::Field(field), &error))
}

/// Parses an item. The error names the field, not the item, because results are in the order of the items.
pub(in crate::http) fn item<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| part_error(Root::Named("the item"), &error))
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox::SettleItem;

    use super::{ITEMS_MAX, item, list};

    #[test]
    fn each_item_has_its_own_error() {
        let json = r#" [{"op":"ack","delivery":"d"}, {"op":"ack"}, 7, {"op":"ack","delivery":[]}, [], {"op":"ack","delivery":"\ud800"}] "#;
        let value = serde_json::from_str(json).unwrap();
        let items = list("settle", value).unwrap();
        let results: Vec<_> =
            items.iter().map(|value| item::<SettleItem>(value).map_err(|error| error.message)).collect();
        assert_eq!(results[0].as_ref().unwrap().delivery, "d");
        let results: Vec<_> =
            results[1..].iter().map(|results| results.as_ref().unwrap_err().as_str()).collect();
        assert_eq!(
            results,
            [
                "delivery is missing",
                "the item has the wrong type: expected an object",
                "delivery has the wrong type: expected a string",
                "the item has the wrong type: expected an object",
                "delivery is not valid Unicode",
            ]
        );
        let value = serde_json::from_str(r#"{"op":"ack"}"#).unwrap();
        let wrong = list("settle", value).unwrap_err();
        assert_eq!(wrong.message, "settle has the wrong type: expected a list");
    }

    #[test]
    fn at_most_items_max_items_are_kept() {
        for (count, kept) in
            [(ITEMS_MAX - 1, ITEMS_MAX - 1), (ITEMS_MAX, ITEMS_MAX), (3 * ITEMS_MAX, ITEMS_MAX)]
        {
            let json = format!("[{}]", vec!["1"; count].join(","));
            let value = serde_json::from_str(&json).unwrap();
            assert_eq!(list("settle", value).unwrap().len(), kept);
        }
    }
}
