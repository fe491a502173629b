//! What handlers may ask for.

use std::any::TypeId;
use std::convert::Infallible;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::failure::Failure;
use crate::message::Message;

/// Something that a handler can have as an argument; `S` is the worker's state.
#[diagnostic::on_unimplemented(
    message = "a handler cannot ask for `{Self}` on a worker whose state is `{S}`",
    note = "it may ask for `Json<T>`, `Text`, `Bytes`, `Message`, `Context`, `Tx`, and `State<T>` after `Worker::with_state`"
)]
pub trait Extract<S>: Sized {
    /// Why it could not be had.
    type Rejection: Into<Rejection>;

    /// Takes it from the delivery or the state.
    fn extract(context: &Context, state: &S) -> Result<Self, Self::Rejection>;

    /// The type of the transaction that a handler has to run in to have this; none if it needs none.
    fn transaction() -> Option<TypeId> {
        None
    }
}

/// The payload is not what the handler asked for: the message becomes Dead with reason `undecodable`.
#[derive(Debug)]
pub struct Rejection(String);

impl Rejection {
    /// Says what is wrong with the payload, without quoting it.
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

/// The payload, read as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<S, T: DeserializeOwned> Extract<S> for Json<T> {
    type Rejection = Rejection;

    fn extract(context: &Context, _: &S) -> Result<Self, Rejection> {
        serde_json::from_slice(&context.payload())
            .map(Self)
            .map_err(|error| Rejection::new(unreadable(&error)))
    }
}

/// What is wrong with a payload that was read as JSON. What serde says quotes it; where it stumbled does not.
pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "is not of the type that its handler expects",
        _ => "is not JSON",
    };
    match error.line() {
        // It was no text any more.
        0 => format!("payload {what}"),
        line => format!("payload {what} (at line {line} column {})", error.column()),
    }
}

/// The payload, read as UTF-8.
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

/// A part of a worker's state, which handlers can ask for by [`State`].
pub trait FromState<S> {
    /// Takes the part.
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
