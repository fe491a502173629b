//! A value as it was written, before anybody knows what it should be.

use toml::de::{DeArray, DeValue};

use super::store::redacted;
use super::unit::line;

/// What stands in a file, a variable or a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    /// From a variable or a flag: can be anything.
    Untyped(String),
    Text(String),
    Flag(bool),
    /// A whole number; none if it is beyond what can be told.
    Number(Option<i128>),
    List(Vec<Raw>),
    /// Something that no setting is.
    Other(&'static str),
    /// Not TOML; that has been told.
    Broken,
}

impl Raw {
    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => {
                Self::Number(i128::from_str_radix(number.as_str(), number.radix()).ok())
            }
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Array(items) => Self::list(items),
            DeValue::Float(_) => Self::Other("a number with a fraction"),
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(_) => Self::Other("a section"),
        }
    }

    fn list(items: &DeArray<'_>) -> Self {
        Self::List(items.iter().map(|item| Self::of(item.get_ref())).collect())
    }

    /// How a message shows it: on one line, without a password.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Untyped(text) => shown(text),
            Self::Text(text) => format!("the text {}", shown(text)),
            Self::Flag(flag) => flag.to_string(),
            Self::Number(Some(number)) => number.to_string(),
            Self::Number(None) => "a number too large to read".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Other(what) => (*what).to_owned(),
            Self::Broken => "broken".to_owned(),
        }
    }
}

/// How a message shows a text: on one line, in quotes, without a password.
pub(super) fn shown(text: &str) -> String {
    format!("`{}`", line(&redacted(text)))
}
