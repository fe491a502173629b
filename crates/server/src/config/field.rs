//! The bridge between a setting's value and the field of the configuration that holds it.

use std::time::Duration;

use oncebox::mailbox::KeyHold;

use super::listen::Listen;

/// A value that was read, whatever field it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Flag(bool),
    /// A count, or a size in bytes.
    Number(u64),
    Duration(Duration),
    /// A duration, or none: for ever.
    Keep(Option<Duration>),
    Text(String),
    Listen(Vec<Listen>),
}

/// A field of the configuration. The kind of a setting makes sure that only values that fit are written; others
/// change nothing.
pub(super) trait Field {
    fn read(&self) -> Value;
    fn write(&mut self, value: Value);
}

macro_rules! plain {
    ($($type:ty: $variant:ident,)+) => {$(
        impl Field for $type {
            fn read(&self) -> Value {
                Value::$variant(self.clone())
            }

            fn write(&mut self, value: Value) {
                if let Value::$variant(value) = value {
                    *self = value;
                }
            }
        }
    )+};
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn read(&self) -> Value {
                Value::Number(u64::try_from(*self).unwrap_or(u64::MAX))
            }

            fn write(&mut self, value: Value) {
                if let Value::Number(value) = value && let Ok(value) = value.try_into() {
                    *self = value;
                }
            }
        }
    )+};
}

plain! { bool: Flag, Duration: Duration, Option<Duration>: Keep, String: Text, Vec<Listen>: Listen, }
numbers!(u16, u32, u64, usize);

/// The words for what holds a key.
pub(super) const KEY_HOLDS: &[&str] = &["window", "until-finished"];

impl Field for KeyHold {
    fn read(&self) -> Value {
        let until_finished = *self == Self::UntilFinished;
        Value::Text(KEY_HOLDS[usize::from(until_finished)].to_owned())
    }

    fn write(&mut self, value: Value) {
        match value {
            Value::Text(word) if word == KEY_HOLDS[0] => *self = Self::Window,
            Value::Text(word) if word == KEY_HOLDS[1] => *self = Self::UntilFinished,
            _ => {}
        }
    }
}

/// An enum whose values are words of the configuration.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident: $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            pub(super) const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word that the configuration has for it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl super::field::Field for $name {
            fn read(&self) -> super::field::Value {
                super::field::Value::Text(self.as_str().to_owned())
            }

            fn write(&mut self, value: super::field::Value) {
                let super::field::Value::Text(word) = value else { return };
                match word.as_str() {
                    $($word => *self = Self::$variant,)+
                    _ => {}
                }
            }
        }
    };
}
pub(super) use words;
