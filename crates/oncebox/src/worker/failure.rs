//! Failures of handlers, and what happens to their messages.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::LastError;

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a handler failed, and what happens to its message.
///
/// `?` and `into()` convert any error to a `Failure` with which the worker's backoff decides when the message is
/// retried. To decide otherwise:
///
/// ```
/// # use std::time::Duration;
/// use oncebox::Failure;
///
/// async fn charge() -> Result<(), Failure> {
///     let response: Result<u32, std::num::ParseIntError> = "17".parse();
///     let status = response?;
///     match status {
///         429 => Err(Failure::retry_after(Duration::from_secs(30), "the bank is busy")),
///         400 => Err(Failure::dead("the bank rejects this payment permanently")),
///         _ => Ok(()),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Failure {
    action: FailureAction,
    text: String,
    error: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What happens to the message of a failed handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureAction {
    /// The worker's backoff decides when the message is retried.
    Retry,
    /// The message is retried after this delay.
    RetryAfter(Duration),
    /// The message becomes Dead.
    Dead,
    /// The message becomes Dead because its payload cannot be decoded.
    Undecodable,
}

impl Failure {
    fn new<E: Into<BoxError>>(action: FailureAction, error: E) -> Self {
        let error = error.into();
        let text = describe(type_name::<E>(), &*error);
        Self { action, text, error: Some(error.into()) }
    }

    fn from_text(action: FailureAction, text: String) -> Self {
        Self { action, text, error: None }
    }

    /// Retries when the worker's backoff says. This is also what any other error does.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::new(FailureAction::Retry, error)
    }

    /// Retries after this delay, rounded up to a millisecond. It uses up an attempt like any other failure.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::new(FailureAction::RetryAfter(delay), error)
    }

    /// Gives up: the message becomes Dead, and an operator can inspect it.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self::new(FailureAction::Dead, error)
    }

    pub(super) fn undecodable(text: String) -> Self {
        Self::from_text(FailureAction::Undecodable, text)
    }

    pub(super) fn timed_out(after: Duration) -> Self {
        Self::from_text(FailureAction::Retry, format!("timeout: the handler ran for more than {after:?}"))
    }

    /// A failure from the payload of a panic.
    pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::from_text(FailureAction::Retry, format!("panic: {}", text.unwrap_or("no message")))
    }

    /// A failure that came out of a layer: the handler's own failure with its action, or an error of the layer.
    pub(super) fn from_layer(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let mut below: Option<&(dyn StdError + 'static)> = Some(&*error);
        // Bounded, because a chain of errors could be circular.
        for _ in 0..8 {
            let Some(found) = below else { break };
            if let Some(HandlerError(failure)) = found.downcast_ref() {
                return failure.clone();
            }
            below = found.source();
        }
        Self::retry(error)
    }

    /// What happens to the message. If no attempts are left, it becomes Dead even if this is a retry.
    pub fn action(&self) -> FailureAction {
        self.action
    }

    /// The text stored with the message: the type of the error, and its message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error that this failure was made from, for example to downcast it.
    pub fn error(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.error.as_deref()
    }

    pub(super) fn last_error(&self) -> Option<LastError> {
        LastError::new(&self.text)
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

/// A [`Failure`] as an error, for layers that need one.
#[derive(Debug)]
pub struct HandlerError(pub Failure);

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl StdError for HandlerError {}

/// `type: message: message of its source`; the types of plain strings and of boxed errors are omitted.
fn describe(kind: &str, error: &(dyn StdError + 'static)) -> String {
    let bare = ["&str", "alloc::string::String", type_name::<BoxError>()].contains(&kind);
    let mut text = if bare { error.to_string() } else { format!("{kind}: {error}") };
    let mut source = error.source();
    // Bounded, because a chain of errors could be circular.
    for _ in 0..8 {
        let Some(error) = source else { break };
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BoxError, Failure, FailureAction, HandlerError};

    #[test]
    fn the_text_of_a_failure_has_the_type_and_message_of_its_error() {
        let failure = Failure::from("x".parse::<u8>().unwrap_err());
        assert_eq!(failure.text(), "core::num::error::ParseIntError: invalid digit found in string");
        assert_eq!(Failure::from("not now").text(), "not now");
        assert_eq!(Failure::from(BoxError::from("boxed")).text(), "boxed");
        assert_eq!(Failure::dead(std::io::Error::other("disk")).text(), "std::io::error::Error: disk");
    }

    #[test]
    fn the_action_survives_a_layer_that_boxes_errors() {
        let action = |failure| Failure::from_layer(BoxError::from(HandlerError(failure))).action();
        assert_eq!(action(Failure::dead("x")), FailureAction::Dead);
        let delay = Duration::from_secs(3);
        assert_eq!(action(Failure::retry_after(delay, "x")), FailureAction::RetryAfter(delay));
        assert_eq!(Failure::from_layer("error of the layer").action(), FailureAction::Retry);
    }
}
