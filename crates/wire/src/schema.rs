//! OpenAPI schemas that cannot be derived: names with a pattern, lists whose items are rejected one by one, and request
//! bodies with mutually exclusive fields.

use std::borrow::Cow;

use utoipa::openapi::schema::{AnyOf, Array, Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::mailbox::{NackRequest, RecvRequest, SendRequest, SettleItem};
use crate::operator::{RedriveRequest, SweepRequest};

/// The id of a message: a ULID or a UUID.
const MESSAGE_ID: &str =
    "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";
/// Maximum number of items in a list.
const ITEMS_MAX: usize = 1_000;
/// Maximum number of attributes of a message, and maximum size of an attribute name in bytes.
const ATTRIBUTES_MAX: usize = 64;
const ATTRIBUTE_NAME_MAX: usize = 128;
/// Fields that filter messages; they cannot be combined with `ids`.
const FILTERS: [&str; 8] = ["state", "reason", "topic", "source", "error", "since", "until", "after"];

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

fn any_of(alternatives: impl IntoIterator<Item = RefOr<Schema>>, description: &str) -> Schema {
    let items = alternatives.into_iter().collect();
    Schema::AnyOf(AnyOf { items, description: Some(description.to_owned()), ..AnyOf::default() })
}

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

/// Messages of a batch.
pub(crate) fn messages() -> Schema {
    let item = any_of(
        [reference::<SendRequest>(), reference::<InvalidItem>()],
        "A message. An invalid item is rejected on its own, without affecting the others.",
    );
    Schema::Array(list(item, "Messages to send, in order: up to 1,000."))
}

/// Deliveries to settle.
pub(crate) fn deliveries() -> Schema {
    let item = any_of(
        [reference::<SettleItem>(), reference::<InvalidItem>()],
        "A delivery to settle. An invalid item is rejected on its own, without affecting the others.",
    );
    Schema::Array(list(item, "Deliveries to settle, in order: up to 1,000."))
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

/// The body of a stream request: a [`RecvRequest`] without `request_id`.
pub struct RecvStreamRequest;

impl PartialSchema for RecvStreamRequest {
    fn schema() -> RefOr<Schema> {
        let mut recv = object::<RecvRequest>("Request to receive messages as a stream.");
        forbid(&mut recv, "request_id");
        RefOr::T(Schema::Object(recv))
    }
}

impl ToSchema for RecvStreamRequest {}

/// Request bodies with mutually exclusive fields: each schema has several variants.
macro_rules! request_bodies {
    ($($(#[$about:meta])* $name:ident as $schema_name:literal: $description:literal, $variants:ident;)+) => {$(
        $(#[$about])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let named = |(name, _): (&str, _)| RefOr::Ref(Ref::from_schema_name(name));
                RefOr::T(any_of($variants().into_iter().map(named), $description))
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($schema_name)
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                <SweepRequest as ToSchema>::schemas(schemas);
                let variants = $variants().into_iter();
                schemas.extend(variants.map(|(name, variant)| (name.to_owned(), RefOr::T(Schema::Object(variant)))));
            }
        }
    )+};
}

request_bodies! {
    /// The schema of a [`NackRequest`].
    NackSchema as "NackRequest": "Request to negatively acknowledge a delivery: the message is retried, or becomes a dead letter.", nack;
    /// The schema of a [`RedriveRequest`].
    RedriveSchema as "RedriveRequest": "Request to redrive dead letters of the mailbox, by id or by filter.", redrive;
    /// The schema of a [`SweepRequest`] that redrives.
    RedriveMessagesSchema as "RedriveMessagesRequest": "Request to redrive Dead messages, by id or by filter.", redrive_messages;
    /// The schema of a [`SweepRequest`] that purges.
    PurgeSchema as "PurgeRequest": "Request to purge messages, by id or by filter: `confirm` erases them, `dry_run` only counts them.", purge;
}

type Variants = Vec<(&'static str, Object)>;

fn nack() -> Variants {
    let whole = object::<NackRequest>("");
    let (mut retry, mut dead) = (whole.clone(), whole);
    restrict(&mut retry, "dead", false);
    restrict(&mut dead, "dead", true);
    dead.required.push("dead".to_owned());
    forbid(&mut dead, "delay_ms");
    vec![
        ("NackRetryRequest", described(retry, "The message is retried.")),
        (
            "NackDeadRequest",
            described(dead, "The message becomes a dead letter at once, with reason `failed`."),
        ),
    ]
}

fn redrive() -> Variants {
    let whole = object::<RedriveRequest>("");
    vec![
        ("RedriveByIdRequest", by_id(whole.clone(), "Redrives dead letters by id.")),
        ("RedriveByFilterRequest", by_filter(whole, "Redrives dead letters that match a filter.")),
    ]
}

fn redrive_messages() -> Variants {
    let mut whole = object::<SweepRequest>("");
    if let Some(state) = whole.properties.get_mut("state") {
        let words = SchemaType::from_iter([Type::String, Type::Null]);
        *state = Schema::Object(
            ObjectBuilder::new()
                .schema_type(words)
                .enum_values(Some([Some("dead"), None]))
                .description(Some("State of the messages: only Dead messages can be redriven."))
                .build(),
        )
        .into();
    }
    vec![
        ("RedriveMessagesByIdRequest", by_id(whole.clone(), "Redrives Dead messages by id.")),
        ("RedriveMessagesByFilterRequest", by_filter(whole, "Redrives Dead messages that match a filter.")),
    ]
}

fn purge() -> Variants {
    let whole = object::<SweepRequest>("");
    let (mut erase, mut dry_run) = (whole.clone(), whole);
    require_true(&mut erase, "confirm");
    require_true(&mut dry_run, "dry_run");
    vec![
        ("PurgeByIdRequest", by_id(erase.clone(), "Erases messages by id.")),
        ("PurgeByFilterRequest", by_filter(erase, "Erases messages that match a filter.")),
        ("PurgeByIdDryRunRequest", by_id(dry_run.clone(), "Counts messages by id, without erasing them.")),
        (
            "PurgeByFilterDryRunRequest",
            by_filter(dry_run, "Counts messages that match a filter, without erasing them."),
        ),
    ]
}

/// The variant that selects messages by id.
fn by_id(mut whole: Object, description: &str) -> Object {
    for filter in FILTERS {
        forbid(&mut whole, filter);
    }
    if let Some(RefOr::T(Schema::Array(ids))) = whole.properties.get_mut("ids") {
        ids.min_items = Some(1);
    }
    whole.required.push("ids".to_owned());
    described(whole, description)
}

/// The variant that selects messages by filter.
fn by_filter(mut whole: Object, description: &str) -> Object {
    if let Some(RefOr::T(Schema::Array(ids))) = whole.properties.get_mut("ids") {
        ids.max_items = Some(0);
        ids.description = Some("Must be empty in this variant.".to_owned());
    }
    described(whole, description)
}

/// The derived schema of a type.
fn object<T: PartialSchema>(description: &str) -> Object {
    match T::schema() {
        RefOr::T(Schema::Object(object)) => described(object, description),
        _ => Object::default(),
    }
}

fn described(mut object: Object, description: &str) -> Object {
    object.description = Some(description.to_owned());
    object
}

/// Forbids a field; `null` is still allowed.
fn forbid(object: &mut Object, field: &str) {
    if let Some(property) = object.properties.get_mut(field) {
        let null =
            ObjectBuilder::new().schema_type(Type::Null).description(Some("Not allowed in this variant."));
        *property = Schema::Object(null.build()).into();
    }
}

/// Requires a field to be `true`.
fn require_true(object: &mut Object, field: &str) {
    restrict(object, field, true);
    object.required.push(field.to_owned());
}

/// Restricts a boolean field to one value.
fn restrict(object: &mut Object, field: &str, value: bool) {
    if let Some(RefOr::T(Schema::Object(property))) = object.properties.get_mut(field) {
        property.enum_values = Some(vec![value.into()]);
    }
}
