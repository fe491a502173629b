//! Data that accompanies the payload: attributes, trace ids, the last error.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::error::Invalid;
use crate::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_COUNT_MAX, LAST_ERROR_BYTES_MAX,
    TEXT_BYTES_MAX,
};

/// Names and values that accompany the payload, sorted by name. Cheap to clone; values stay out of `Debug` output.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Attributes(Option<Arc<BTreeMap<Box<str>, Box<str>>>>);

impl Attributes {
    /// Accepts up to [`ATTRIBUTES_COUNT_MAX`] pairs with [`ATTRIBUTES_BYTES_MAX`] bytes in total. If a name occurs
    /// twice, the last value is kept.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, Invalid> {
        let mut map = BTreeMap::new();
        let mut bytes = 0;
        for (name, value) in pairs {
            let (name, value) = (name.as_ref(), value.as_ref());
            if name.is_empty() {
                return Err(Invalid::empty("attribute name"));
            }
            if name.len() > ATTRIBUTE_NAME_BYTES_MAX {
                return Err(Invalid::too_long(
                    "attribute name",
                    "bytes",
                    ATTRIBUTE_NAME_BYTES_MAX,
                    name.len(),
                ));
            }
            if name.contains('\0') || value.contains('\0') {
                return Err(Invalid::nul("attribute"));
            }
            bytes += name.len() + value.len();
            if bytes > ATTRIBUTES_BYTES_MAX {
                return Err(Invalid::too_long("attributes", "bytes", ATTRIBUTES_BYTES_MAX, bytes));
            }
            map.insert(name.into(), value.into());
            if map.len() > ATTRIBUTES_COUNT_MAX {
                return Err(Invalid::too_many("attributes", ATTRIBUTES_COUNT_MAX, map.len()));
            }
        }
        Ok(Self((!map.is_empty()).then(|| Arc::new(map))))
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name).map(AsRef::as_ref)
    }

    /// All pairs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|map| map.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The total size of all names and values.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// The ids that connect a message to what caused it. Cheap to clone. A blank id counts as none.
///
/// Stored as one text: correlation, causation and tenant, separated by NUL, which none of them may contain. Most
/// messages have only one of them, and separate texts would take twice the memory.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Trace(Option<Arc<str>>);

/// Selects one of the three ids.
#[derive(Clone, Copy)]
enum TraceId {
    Correlation,
    Causation,
    Tenant,
}

impl Trace {
    fn with(self, field: &'static str, which: TraceId, id: &str) -> Result<Self, Invalid> {
        if id.trim().is_empty() {
            return Ok(self);
        }
        if id.len() > TEXT_BYTES_MAX {
            return Err(Invalid::too_long(field, "bytes", TEXT_BYTES_MAX, id.len()));
        }
        if id.as_bytes().contains(&0) {
            return Err(Invalid::nul(field));
        }
        let mut ids = self.ids();
        ids[which as usize] = id;
        Ok(Self(Some(ids.join("\0").into())))
    }

    fn get(&self, which: TraceId) -> Option<&str> {
        Some(self.ids()[which as usize]).filter(|id| !id.is_empty())
    }

    /// Correlation, causation and tenant, in this order; an id that is not set is empty.
    pub fn ids(&self) -> [&str; 3] {
        let mut rest = self.0.as_deref().unwrap_or_default();
        [TraceId::Correlation, TraceId::Causation, TraceId::Tenant].map(|_| {
            // Ids are short: setting up a `memchr` search would take longer than checking each byte.
            let end = rest.bytes().position(|byte| byte == 0).unwrap_or(rest.len());
            let (id, remainder) = rest.split_at(end);
            rest = remainder.get(1..).unwrap_or_default();
            id
        })
    }

    /// Sets the correlation id, which all messages of one business process share.
    pub fn with_correlation(self, id: &str) -> Result<Self, Invalid> {
        self.with("correlation id", TraceId::Correlation, id)
    }

    /// Sets the id of the direct cause of the message.
    pub fn with_causation(self, id: &str) -> Result<Self, Invalid> {
        self.with("causation id", TraceId::Causation, id)
    }

    /// Sets the id of the tenant that the message belongs to.
    pub fn with_tenant(self, id: &str) -> Result<Self, Invalid> {
        self.with("tenant id", TraceId::Tenant, id)
    }

    /// The correlation id.
    pub fn correlation(&self) -> Option<&str> {
        self.get(TraceId::Correlation)
    }

    /// The id of the direct cause.
    pub fn causation(&self) -> Option<&str> {
        self.get(TraceId::Causation)
    }

    /// The id of the tenant.
    pub fn tenant(&self) -> Option<&str> {
        self.get(TraceId::Tenant)
    }

    /// The total size of all ids.
    pub fn bytes(&self) -> usize {
        // Two bytes are the separators.
        self.0.as_ref().map_or(0, |ids| ids.len() - 2)
    }

    /// Whether no id is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("correlation", &self.correlation())
            .field("causation", &self.causation())
            .field("tenant", &self.tenant())
            .finish()
    }
}

/// The error of the last failed attempt, as `type: message`; never a payload, never a stack trace. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LastError(Arc<str>);

impl LastError {
    /// Keeps the first [`LAST_ERROR_BYTES_MAX`] bytes, cut at a character boundary. A blank text gives none.
    pub fn new(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let text = text.replace('\0', "\u{FFFD}");
        Some(Self(text[..text.floor_char_boundary(LAST_ERROR_BYTES_MAX)].into()))
    }

    /// The error that a lapsed lease leaves.
    pub fn lapsed() -> Self {
        static TEXT: LazyLock<Arc<str>> =
            LazyLock::new(|| "lease lost: the worker crashed, stalled, or could not reach the store".into());
        Self(TEXT.clone())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Attributes, LastError, Trace};

    #[test]
    fn attributes_are_sorted_bounded_and_hidden_from_debug() {
        let attributes = Attributes::new([("b", "2"), ("a", "secret")]).unwrap();
        assert_eq!(attributes.iter().collect::<Vec<_>>(), [("a", "secret"), ("b", "2")]);
        assert_eq!(format!("{attributes:?}"), r#"{"a", "b"}"#);
        assert!(Attributes::new((0..65).map(|n| (n.to_string(), ""))).is_err());
        assert!(Attributes::new([("a", "x".repeat(16 * 1024))]).is_err());
        assert!(Attributes::new([("", "x")]).is_err());
    }

    #[test]
    fn a_blank_trace_id_is_none() {
        let trace = Trace::default().with_correlation(" ").unwrap().with_tenant("acme").unwrap();
        assert_eq!((trace.correlation(), trace.tenant()), (None, Some("acme")));
        assert_eq!(trace.bytes(), 4);
        assert!(Trace::default().with_causation(&"x".repeat(1_025)).is_err());
        assert!(Trace::default().with_causation("a\0b").is_err());
    }

    #[test]
    fn trace_ids_are_independent_of_the_order_they_are_set_in() {
        let trace = Trace::default().with_tenant("t").unwrap().with_correlation("a").unwrap();
        assert_eq!((trace.correlation(), trace.causation(), trace.tenant()), (Some("a"), None, Some("t")));
        let trace = trace.with_causation("b").unwrap().with_correlation("c").unwrap();
        assert_eq!(
            (trace.correlation(), trace.causation(), trace.tenant()),
            (Some("c"), Some("b"), Some("t"))
        );
        assert_eq!((trace.bytes(), trace.is_empty()), (3, false));
        assert_eq!(trace.ids(), ["c", "b", "t"]);
        let empty = Trace::default();
        assert_eq!((empty.correlation(), empty.bytes(), empty.is_empty()), (None, 0, true));
        assert_eq!(empty.ids(), [""; 3]);
    }

    /// Holds: IBX-057.
    #[test]
    fn a_long_error_is_cut_between_characters_and_a_blank_one_is_none() {
        assert_eq!(LastError::new("  "), None);
        let text = format!("x{}", "ü".repeat(4_000));
        let kept = LastError::new(&text).unwrap();
        assert_eq!(kept.as_str().len(), 4_095);
        assert!(text.starts_with(kept.as_str()));
    }
}
