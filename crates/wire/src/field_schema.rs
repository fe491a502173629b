//! OpenAPI schemas of fields that cannot be derived: names with a pattern, and lists whose items are rejected one by
//! one.

use utoipa::openapi::schema::{AnyOf, Array, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The id of a message: a ULID or a UUID.
const MESSAGE_ID: &str =
    "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";
/// Maximum number of items in a list.
const ITEMS_MAX: usize = 1_000;
/// Maximum number of attributes of a message, and maximum size of an attribute name in bytes.
const ATTRIBUTES_MAX: usize = 64;
const ATTRIBUTE_NAME_MAX: usize = 128;

/// Attributes of a message.
pub(crate) fn attrs() -> Schema {
    let name = text(r"^[^\x00]+$").min_length(Some(1)).max_length(Some(ATTRIBUTE_NAME_MAX));
    let attrs = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(
            "Attributes: up to 64 names with values, at most 16 KiB in total; a name has up to 128 bytes.",
        ))
        .max_properties(Some(ATTRIBUTES_MAX))
        .property_names(Some(Schema::Object(name.build())))
        .additional_properties(Some(Schema::Object(text(r"^[^\x00]*$").build())));
    Schema::Object(attrs.build())
}

/// Ids of the messages to redrive or purge.
pub(crate) fn ids() -> Schema {
    let id = Schema::Object(text(MESSAGE_ID).build());
    Schema::Array(list(
        id,
        "Ids of the messages, each a ULID or UUID: up to 1,000. Cannot be combined with a filter.",
    ))
}

/// A list whose invalid items are rejected on their own, without affecting the others.
pub(crate) fn list_of<T: ToSchema>(item: &str, description: &str) -> Schema {
    let item = any_of([reference::<T>(), reference::<InvalidItem>()], item);
    Schema::Array(list(item, description))
}

/// Any JSON value, as an item of a list whose items are rejected one by one.
pub struct InvalidItem;

impl PartialSchema for InvalidItem {
    fn schema() -> RefOr<Schema> {
        let types = [Type::Object, Type::String, Type::Number, Type::Boolean, Type::Null];
        let types = types.map(|kind| Schema::Object(ObjectBuilder::new().schema_type(kind).build()).into());
        // An array of anything.
        let anything = Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).build());
        let array = Schema::Array(Array::new(anything)).into();
        let description = "An invalid item: its result has `ok: false` and the reason.";
        RefOr::T(any_of(types.into_iter().chain([array]), description))
    }
}

impl ToSchema for InvalidItem {}

/// A value of one of these schemas.
pub(crate) fn any_of(alternatives: impl IntoIterator<Item = RefOr<Schema>>, description: &str) -> Schema {
    let items = alternatives.into_iter().collect();
    Schema::AnyOf(AnyOf { items, description: Some(description.to_owned()), ..AnyOf::default() })
}

fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn list(items: impl Into<RefOr<Schema>>, description: &str) -> Array {
    let mut list = Array::new(items);
    list.description = Some(description.to_owned());
    list.max_items = Some(ITEMS_MAX);
    list
}

fn reference<T: ToSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(T::name()))
}
