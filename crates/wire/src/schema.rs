//! Parts of the description that no derive can express: names with a form, lists whose items are refused one by one, and bodies of
//! which some fields exclude others.

use std::borrow::Cow;

use utoipa::openapi::schema::{AnyOf, Array, Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::mailbox::{Nack, Recv, Send, SettleItem};
use crate::operator::{Redrive, Sweep};

/// The id of a message: a ULID or a UUID.
const MESSAGE_ID: &str =
    "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";
/// Items of a list, at most.
const ITEMS_MAX: usize = 1_000;
/// Attributes of a message, and bytes of a name, at most.
const ATTRIBUTES_MAX: usize = 64;
const ATTRIBUTE_NAME_MAX: usize = 128;
/// Fields that choose messages, where `ids` do not.
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
            "Names and values beside the payload: up to 64, of 16 KiB together; a name has up to 128 bytes.",
        ))
        .max_properties(Some(ATTRIBUTES_MAX))
        .property_names(Some(Schema::Object(name.build())))
        .additional_properties(Some(Schema::Object(text(r"^[^\x00]*$").build())));
    Schema::Object(attrs.build())
}

/// The messages that a sweep names.
pub(crate) fn ids() -> Schema {
    let id = Schema::Object(text(MESSAGE_ID).build());
    Schema::Array(list(id, "These, each by its ULID or UUID; up to 1,000. Then nothing else chooses."))
}

/// The messages of a batch.
pub(crate) fn messages() -> Schema {
    let item = any_of(
        [reference::<Send>(), reference::<Malformed>()],
        "A message. Anything else is refused in its place, and keeps no other out.",
    );
    Schema::Array(list(item, "The messages, in order; up to 1,000."))
}

/// Deliveries to be settled.
pub(crate) fn deliveries() -> Schema {
    let item = any_of(
        [reference::<SettleItem>(), reference::<Malformed>()],
        "A delivery. Anything else is refused in its place, and keeps no other out.",
    );
    Schema::Array(list(item, "The deliveries to be settled, in order; up to 1,000."))
}

/// Any JSON in a list whose items are refused one by one.
pub struct Malformed;

impl PartialSchema for Malformed {
    fn schema() -> RefOr<Schema> {
        let types = [Type::Object, Type::String, Type::Number, Type::Boolean, Type::Null];
        let types = types.map(|kind| Schema::Object(ObjectBuilder::new().schema_type(kind).build()).into());
        // An array of anything.
        let anything = Schema::Object(ObjectBuilder::new().schema_type(SchemaType::AnyValue).build());
        let array = Schema::Array(Array::new(anything)).into();
        let description = "What is not an item of the list: its result has `ok: false`, and why.";
        RefOr::T(any_of(types.into_iter().chain([array]), description))
    }
}

impl ToSchema for Malformed {}

/// The body of a request for a stream: a [`Recv`] that cannot be repeated.
pub struct RecvStream;

impl PartialSchema for RecvStream {
    fn schema() -> RefOr<Schema> {
        let mut recv = object::<Recv>("Which messages to stream.");
        only_null(&mut recv, "request_id");
        RefOr::T(Schema::Object(recv))
    }
}

impl ToSchema for RecvStream {}

/// Bodies whose fields exclude each other: each has several shapes.
macro_rules! bodies {
    ($($(#[$about:meta])* $name:ident as $written:literal: $description:literal, $shapes:ident;)+) => {$(
        $(#[$about])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let named = |(name, _): (&str, _)| RefOr::Ref(Ref::from_schema_name(name));
                RefOr::T(any_of($shapes().into_iter().map(named), $description))
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($written)
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                <Sweep as ToSchema>::schemas(schemas);
                let shapes = $shapes().into_iter();
                schemas.extend(shapes.map(|(name, shape)| (name.to_owned(), RefOr::T(Schema::Object(shape)))));
            }
        }
    )+};
}

bodies! {
    /// [`Nack`], as the description says it.
    NackBody as "Nack": "It comes again, or is a dead letter at once.", nack;
    /// [`Redrive`], as the description says it.
    RedriveBody as "Redrive": "Dead letters by their ids, or those that match.", redrive;
    /// A redrive's [`Sweep`], as the description says it.
    RedriveMessagesBody as "RedriveMessages": "Dead messages by their ids, or those that match.", redrive_messages;
    /// A purge's [`Sweep`], as the description says it.
    PurgeBody as "Purge": "Messages by their ids, or those that match: `confirm` erases them, a dry run only counts them.", purge;
}

type Shapes = Vec<(&'static str, Object)>;

fn nack() -> Shapes {
    let whole = object::<Nack>("");
    let (mut again, mut dead) = (whole.clone(), whole);
    only(&mut again, "dead", false);
    only(&mut dead, "dead", true);
    dead.required.push("dead".to_owned());
    only_null(&mut dead, "delay_ms");
    vec![
        ("NackAgain", described(again, "The message comes again.")),
        ("NackDead", described(dead, "The message is a dead letter at once, reason `failed`.")),
    ]
}

fn redrive() -> Shapes {
    let whole = object::<Redrive>("");
    vec![
        ("RedriveNamed", named(whole.clone(), "Dead letters by their ids.")),
        ("RedriveMatching", matching(whole, "Dead letters that match.")),
    ]
}

fn redrive_messages() -> Shapes {
    let mut whole = object::<Sweep>("");
    if let Some(state) = whole.properties.get_mut("state") {
        let words = SchemaType::from_iter([Type::String, Type::Null]);
        *state = Schema::Object(
            ObjectBuilder::new()
                .schema_type(words)
                .enum_values(Some([Some("dead"), None]))
                .description(Some("Only Dead messages are redriven."))
                .build(),
        )
        .into();
    }
    vec![
        ("RedriveMessagesNamed", named(whole.clone(), "Dead messages by their ids.")),
        ("RedriveMessagesMatching", matching(whole, "Dead messages that match.")),
    ]
}

fn purge() -> Shapes {
    let whole = object::<Sweep>("");
    let (mut erase, mut preview) = (whole.clone(), whole);
    only_true(&mut erase, "confirm");
    only_true(&mut preview, "dry_run");
    vec![
        ("PurgeNamed", named(erase.clone(), "Erases messages by their ids.")),
        ("PurgeMatching", matching(erase, "Erases messages that match.")),
        ("PurgeNamedPreview", named(preview.clone(), "Counts messages by their ids.")),
        ("PurgeMatchingPreview", matching(preview, "Counts messages that match.")),
    ]
}

/// The shape in which ids choose.
fn named(mut whole: Object, description: &str) -> Object {
    for filter in FILTERS {
        only_null(&mut whole, filter);
    }
    if let Some(RefOr::T(Schema::Array(ids))) = whole.properties.get_mut("ids") {
        ids.min_items = Some(1);
    }
    whole.required.push("ids".to_owned());
    described(whole, description)
}

/// The shape in which ids do not.
fn matching(mut whole: Object, description: &str) -> Object {
    if let Some(RefOr::T(Schema::Array(ids))) = whole.properties.get_mut("ids") {
        ids.max_items = Some(0);
        ids.description = Some("None.".to_owned());
    }
    described(whole, description)
}

/// The object that a type is derived as.
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

/// Forbids a field, which may be `null` all the same.
fn only_null(object: &mut Object, field: &str) {
    if let Some(property) = object.properties.get_mut(field) {
        let null = ObjectBuilder::new().schema_type(Type::Null).description(Some("Not here."));
        *property = Schema::Object(null.build()).into();
    }
}

/// Asks for a field that says `true`.
fn only_true(object: &mut Object, field: &str) {
    only(object, field, true);
    object.required.push(field.to_owned());
}

/// Leaves a field one of its two values.
fn only(object: &mut Object, field: &str, value: bool) {
    if let Some(RefOr::T(Schema::Object(property))) = object.properties.get_mut(field) {
        property.enum_values = Some(vec![value.into()]);
    }
}
