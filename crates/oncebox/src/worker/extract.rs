//! Extractors: the arguments of handlers.

use std::any::TypeId;
use std::convert::Infallible;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::failure::Failure;
use crate::message::Message;

/// A type that a handler can take as an argument; `S` is the worker's state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler argument on a worker whose state is `{S}`",
    note = "arguments are `Json<T>`, `Text`, `Bytes`, `Message`, `Context`, `Tx`, and `State<T>` after `Worker::with_state`"
)]
pub trait Extract<S>: Sized {
    /// The error if it cannot be extracted.
    type Rejection: Into<Rejection>;

    /// Extracts the value from the delivery or the state.
    fn extract(context: &Context, state: &S) -> Result<Self, Self::Rejection>;

    /// The type of the transaction that a handler must run in to use this extractor; none if it needs none.
    fn transaction() -> Option<TypeId> {
        None
    }
}

/// The payload is not what the handler expects: the message becomes Dead with reason `undecodable`.
#[derive(Debug)]
pub struct Rejection(String);

impl Rejection {
    /// Creates a rejection. `text` describes the problem without quoting the payload.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<Infallible> for Rejection {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Self::undecodable(rejection.0)
    }
}

/// The payload, parsed as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<S, T: DeserializeOwned> Extract<S> for Json<T> {
    type Rejection = Rejection;

    fn extract(context: &Context, _: &S) -> Result<Self, Rejection> {
        serde_json::from_slice(&context.payload())
            .map(Self)
            .map_err(|error| Rejection::new(json_error_text(&error)))
    }
}

/// Describes why a payload is not valid JSON for its type. The error of serde quotes the payload, so only its position
/// is used.
pub(crate) fn json_error_text(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "does not match the type that its handler expects",
        _ => "is not JSON",
    };
    match error.line() {
        // The error has no position.
        0 => format!("payload {what}"),
        line => format!("payload {what} (at line {line} column {})", error.column()),
    }
}

/// The payload, as UTF-8 text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl<S> Extract<S> for Text {
    type Rejection = Rejection;

    fn extract(context: &Context, _: &S) -> Result<Self, Rejection> {
        let text = String::from_utf8(context.payload().into());
        text.map(Self).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            Rejection::new(format!("payload is not UTF-8 (at byte {place})"))
        })
    }
}

impl<S> Extract<S> for Bytes {
    type Rejection = Infallible;

    fn extract(context: &Context, _: &S) -> Result<Self, Infallible> {
        Ok(context.payload())
    }
}

impl<S> Extract<S> for Message {
    type Rejection = Infallible;

    fn extract(context: &Context, _: &S) -> Result<Self, Infallible> {
        Ok(context.message())
    }
}

impl<S> Extract<S> for Context {
    type Rejection = Infallible;

    fn extract(context: &Context, _: &S) -> Result<Self, Infallible> {
        Ok(context.clone())
    }
}

/// The worker's state, or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

/// A part of a worker's state that handlers can extract with [`State`].
pub trait FromState<S> {
    /// Extracts the part.
    fn from_state(state: &S) -> Self;
}

impl<T: Clone> FromState<T> for T {
    fn from_state(state: &T) -> Self {
        state.clone()
    }
}

impl<S, T: FromState<S>> Extract<S> for State<T> {
    type Rejection = Infallible;

    fn extract(_: &Context, state: &S) -> Result<Self, Infallible> {
        Ok(Self(T::from_state(state)))
    }
}
