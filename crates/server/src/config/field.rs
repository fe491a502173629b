//! Converts between the value of a setting and the field of the configuration that stores it.

use std::path::PathBuf;
use std::time::Duration;

use oncebox::mailbox::KeyHold;

use super::listen::ListenAddress;

/// A parsed value of any field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Bool(bool),
    /// A count, or a size in bytes.
    Number(u64),
    Duration(Duration),
    /// A duration, or `None` for no limit.
    OptionalDuration(Option<Duration>),
    Text(String),
    /// The path of a file, or `None` for no file.
    File(Option<PathBuf>),
    Listen(Vec<ListenAddress>),
}

/// A field of the configuration. The kind of a setting ensures that values fit; a value that does not is ignored.
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

plain! { bool: Bool, Duration: Duration, Option<Duration>: OptionalDuration, String: Text, Option<PathBuf>: File, Vec<ListenAddress>: Listen, }
numbers!(u16, u32, u64, usize);

/// Names of the variants of [`KeyHold`].
pub(super) const KEY_HOLDS: &[&str] = &["window", "until-finished"];

impl Field for KeyHold {
    fn read(&self) -> Value {
        let until_finished = *self == Self::UntilFinished;
        Value::Text(KEY_HOLDS[usize::from(until_finished)].to_owned())
    }

    fn write(&mut self, value: Value) {
        match value {
            Value::Text(choice) if choice == KEY_HOLDS[0] => *self = Self::Window,
            Value::Text(choice) if choice == KEY_HOLDS[1] => *self = Self::UntilFinished,
            _ => {}
        }
    }
}

/// Defines an enum whose values are named in the configuration.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident: $choice:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            pub(super) const CHOICES: &'static [&'static str] = &[$($choice),+];

            /// The name in the configuration.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $choice,)+
                }
            }
        }

        impl super::field::Field for $name {
            fn read(&self) -> super::field::Value {
                super::field::Value::Text(self.as_str().to_owned())
            }

            fn write(&mut self, value: super::field::Value) {
                let super::field::Value::Text(choice) = value else { return };
                match choice.as_str() {
                    $($choice => *self = Self::$variant,)+
                    _ => {}
                }
            }
        }
    };
}
pub(super) use choices;
