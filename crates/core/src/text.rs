//! Texts that name things: source, id, topic, partition. A value of these types is always within its limits.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::error::Invalid;
use crate::limits::{INBOX_TEXT_CHARS_MAX, TEXT_BYTES_MAX};

fn check(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::empty(field));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(Invalid::too_long(field, "bytes", TEXT_BYTES_MAX, text.len()));
    }
    if text.as_bytes().contains(&0) {
        return Err(Invalid::nul(field));
    }
    Ok(())
}

fn check_inbox(field: &'static str, text: &str) -> Result<(), Invalid> {
    check(field, text)?;
    let chars = text.chars().count();
    if chars > INBOX_TEXT_CHARS_MAX {
        return Err(Invalid::too_long(field, "characters", INBOX_TEXT_CHARS_MAX, chars));
    }
    Ok(())
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        ///
        /// 1 to [`TEXT_BYTES_MAX`] bytes without NUL, compared byte by byte. Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Accepts a text within the limits of the core.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, Invalid> {
                let text = text.into();
                check($field, &text)?;
                Ok(Self(text))
            }

            /// Accepts a text that is also within the limit of the inbox, [`INBOX_TEXT_CHARS_MAX`] characters.
            pub fn inbox(text: impl Into<Arc<str>>) -> Result<Self, Invalid> {
                let text = text.into();
                check_inbox($field, &text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for Arc<str> {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(
    /// The system that a message comes from, such as `stripe`; ids of different sources never collide.
    Source,
    "source"
);
text!(
    /// The id that its source gave a message.
    Id,
    "id"
);
text!(
    /// The subject of a message; it selects the handler. Case-sensitive.
    Topic,
    "topic"
);
text!(
    /// The id of a record within its kind.
    RecordId,
    "record id"
);
text!(
    /// Messages with the same partition are processed one at a time, in order.
    Partition,
    "partition"
);

#[cfg(test)]
mod tests {
    use super::{Id, Source, Topic};

    /// Holds: IBX-009, IBX-010, IBX-015, IBX-016, IBX-017.
    #[test]
    fn empty_texts_are_refused_and_the_error_names_the_field() {
        assert_eq!(Id::new("").unwrap_err().to_string(), "id is empty: give at least one character");
        assert_eq!(Source::new("").unwrap_err().field(), "source");
        assert_eq!(Topic::new("").unwrap_err().field(), "topic");
    }

    /// Holds: IBX-011, IBX-012, IBX-020, RULE-19.
    #[test]
    fn the_inbox_counts_characters_and_the_core_counts_bytes() {
        let umlauts = "ü".repeat(255);
        assert_eq!(Id::inbox(umlauts.clone()).unwrap().as_str(), umlauts);
        assert_eq!(
            Id::inbox("ü".repeat(256)).unwrap_err().to_string(),
            "id is 256 characters long, the limit is 255"
        );
        assert!(Source::inbox("s".repeat(256)).is_err());
        assert!(Topic::inbox("t".repeat(256)).is_err());
        assert!(Id::new("i".repeat(1_024)).is_ok());
        assert_eq!(
            Id::new("i".repeat(1_025)).unwrap_err().to_string(),
            "id is 1025 bytes long, the limit is 1024"
        );
        assert!(Id::new("a\0b").is_err());
    }

    /// Holds: IBX-021.
    #[test]
    fn topics_differ_by_case() {
        assert_ne!(Topic::new("Order.Created").unwrap(), Topic::new("order.created").unwrap());
    }
}
