//! OpenAPI schemas of request bodies that cannot be derived: some forbid a field, others have exclusive fields.

use std::borrow::Cow;

use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::field_schema::any_of;
use crate::mailbox::{NackRequest, RecvRequest};
use crate::operator::{RedriveRequest, SweepRequest};

pub use crate::field_schema::InvalidItem;

/// Fields that filter messages; they cannot be combined with `ids`.
const FILTERS: [&str; 8] = ["state", "reason", "topic", "source", "error", "since", "until", "after"];

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
