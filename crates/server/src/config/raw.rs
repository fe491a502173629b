//! A value as it was written, before it is parsed for a setting.

use toml::de::{DeArray, DeValue};

use super::redact::shown;

/// A value from a file, a variable or a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    /// From a variable or a flag: its type depends on the setting.
    Untyped(String),
    Text(String),
    Bool(bool),
    /// A whole number; `None` if it is too large.
    Number(Option<i128>),
    List(Vec<Raw>),
    /// A TOML type that no setting has.
    Other(&'static str),
    /// Not valid TOML, which has been reported.
    Broken,
}

impl Raw {
    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => {
                Self::Number(i128::from_str_radix(number.as_str(), number.radix()).ok())
            }
            DeValue::Boolean(flag) => Self::Bool(*flag),
            DeValue::Array(items) => Self::list(items),
            DeValue::Float(_) => Self::Other("a fractional number"),
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(_) => Self::Other("a table"),
        }
    }

    fn list(items: &DeArray<'_>) -> Self {
        Self::List(items.iter().map(|item| Self::of(item.get_ref())).collect())
    }

    /// Formats the value for a message: on one line, without passwords.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Untyped(text) => shown(text),
            Self::Text(text) => format!("the string {}", shown(text)),
            Self::Bool(flag) => flag.to_string(),
            Self::Number(Some(number)) => number.to_string(),
            Self::Number(None) => "a number that is too large".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Other(what) => (*what).to_owned(),
            Self::Broken => "invalid TOML".to_owned(),
        }
    }
}
