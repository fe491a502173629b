//! How a handler fails, and what it wishes for its message.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::LastError;

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a handler failed, and what shall become of its message.
///
/// Any error becomes one with `?` or `into()`: the worker's policy decides when it is tried again. To decide otherwise:
///
/// ```
/// # use std::time::Duration;
/// use oncebox::Failure;
///
/// async fn charge() -> Result<(), Failure> {
///     let answer: Result<u32, std::num::ParseIntError> = "17".parse();
///     let status = answer?;
///     match status {
///         429 => Err(Failure::retry_after(Duration::from_secs(30), "the bank is busy")),
///         400 => Err(Failure::dead("the bank refuses this payment for good")),
///         _ => Ok(()),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Failure {
    wish: Wish,
    text: String,
    error: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What shall become of the message of a failed handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wish {
    /// The policy decides when it is tried again.
    Retry,
    /// It is tried again after this delay.
    RetryAfter(Duration),
    /// It is given up.
    Dead,
    /// It is given up because nobody can read it.
    Undecodable,
}

impl Failure {
    fn new<E: Into<BoxError>>(wish: Wish, error: E) -> Self {
        let error = error.into();
        let text = describe(type_name::<E>(), &*error);
        Self { wish, text, error: Some(error.into()) }
    }

    fn told(wish: Wish, text: String) -> Self {
        Self { wish, text, error: None }
    }

    /// Try again when the worker's policy says; what any error does.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::new(Wish::Retry, error)
    }

    /// Try again after this delay, rounded up to a millisecond. An attempt is spent all the same.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::new(Wish::RetryAfter(delay), error)
    }

    /// Give up: the message becomes Dead, for an operator to look at.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self::new(Wish::Dead, error)
    }

    pub(super) fn undecodable(text: String) -> Self {
        Self::told(Wish::Undecodable, text)
    }

    pub(super) fn timed_out(after: Duration) -> Self {
        Self::told(Wish::Retry, format!("timeout: the handler ran for more than {after:?}"))
    }

    /// What a panicking handler left behind.
    pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::told(Wish::Retry, format!("panic: {}", text.unwrap_or("without a text")))
    }

    /// What came out of a layer: our own failure with its wish, or an error of the layer's.
    pub(super) fn from_layer(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let mut below: Option<&(dyn StdError + 'static)> = Some(&*error);
        // Bounded: a chain of errors could go round in a circle.
        for _ in 0..8 {
            let Some(found) = below else { break };
            if let Some(Failed(failure)) = found.downcast_ref() {
                return failure.clone();
            }
            below = found.source();
        }
        Self::retry(error)
    }

    /// What shall become of the message. A retry is the last one's end all the same when no attempt is left.
    pub fn wish(&self) -> Wish {
        self.wish
    }

    /// What is kept with the message: the type of the error, and what it says.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error it was made from, to look at what it is.
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

/// A [`Failure`] on its way through layers, which want an error.
#[derive(Debug)]
pub struct Failed(pub Failure);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl StdError for Failed {}

/// `type: what it says: what its source says`; bare texts and boxes have no type worth telling.
fn describe(kind: &str, error: &(dyn StdError + 'static)) -> String {
    let bare = ["&str", "alloc::string::String", type_name::<BoxError>()].contains(&kind);
    let mut text = if bare { error.to_string() } else { format!("{kind}: {error}") };
    let mut source = error.source();
    // Bounded: a chain of errors could go round in a circle.
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

    use super::{BoxError, Failed, Failure, Wish};

    #[test]
    fn an_error_is_told_by_type_and_text() {
        let failure = Failure::from("x".parse::<u8>().unwrap_err());
        assert_eq!(failure.text(), "core::num::error::ParseIntError: invalid digit found in string");
        assert_eq!(Failure::from("not now").text(), "not now");
        assert_eq!(Failure::from(BoxError::from("boxed")).text(), "boxed");
        assert_eq!(Failure::dead(std::io::Error::other("disk")).text(), "std::io::error::Error: disk");
    }

    #[test]
    fn a_wish_survives_a_layer_that_boxes_errors() {
        let wish = |failure| Failure::from_layer(BoxError::from(Failed(failure))).wish();
        assert_eq!(wish(Failure::dead("x")), Wish::Dead);
        let delay = Duration::from_secs(3);
        assert_eq!(wish(Failure::retry_after(delay, "x")), Wish::RetryAfter(delay));
        assert_eq!(Failure::from_layer("of the layer").wish(), Wish::Retry);
    }
}
