//! Ledger keys for consumers of a message bus.

use oncebox_core::Invalid;

/// A consumer of one kind of message: the parts of a key that all its messages share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumer<'a> {
    /// The bus that the messages arrive on.
    pub bus: &'a str,
    /// The consumer group that shares the work.
    pub group: &'a str,
    /// The kind of message.
    pub alias: &'a str,
}

/// A part of a key in which colons can be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPart {
    /// [`Consumer::bus`].
    Bus,
    /// [`Consumer::group`].
    Group,
    /// [`Consumer::alias`].
    Alias,
}

/// Builds the keys under which a consumer group deduplicates messages of a bus: `{bus}:{group}:{alias}:{id}`. The parts
/// are joined without escaping, so consumers in any language build the same key for the same message.
///
/// ```
/// use oncebox::ledger::{Consumer, LedgerKeys};
///
/// # fn main() -> Result<(), oncebox::message::Invalid> {
/// let keys = LedgerKeys::new(Consumer { bus: "orders", group: "billing", alias: "placed" })?;
/// // Uses the idempotency header of the message if it has one, otherwise its message id.
/// assert_eq!(keys.of_message(Some("order-17"), Some("4711"))?, "orders:billing:placed:order-17");
/// assert_eq!(keys.of_message(None, Some("4711"))?, "orders:billing:placed:4711");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerKeys {
    /// Everything before the id.
    prefix: String,
}

impl LedgerKeys {
    /// Creates the key builder of a consumer. Fails if a part contains a colon, because two consumers could then share
    /// keys.
    pub fn new(consumer: Consumer<'_>) -> Result<Self, Invalid> {
        Self::with_colons_in(consumer, &[])
    }

    /// Creates the key builder of a consumer, allowing colons in the named parts. The caller must make sure that the
    /// joined parts of no other consumer give the same text: `a:b` with `c` and `a` with `b:c` do.
    pub fn with_colons_in(consumer: Consumer<'_>, allowed: &[KeyPart]) -> Result<Self, Invalid> {
        let Consumer { bus, group, alias } = consumer;
        let parts =
            [(KeyPart::Bus, "bus", bus), (KeyPart::Group, "group", group), (KeyPart::Alias, "alias", alias)];
        for (part, name, text) in parts {
            if text.contains(':') && !allowed.contains(&part) {
                let text = "contains a colon, so its keys could collide with another consumer's: rename it, or allow it with \
                            `LedgerKeys::with_colons_in`";
                return Err(Invalid::new(name, text));
            }
        }
        Ok(Self { prefix: format!("{bus}:{group}:{alias}:") })
    }

    /// The key of the message with this id. The id may contain colons, because it is the last part.
    pub fn of_id(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    /// The key of a message, from its idempotency header or, if that is missing or blank, its message id. Fails if both
    /// are missing or blank.
    pub fn of_message(
        &self,
        idempotency_header: Option<&str>,
        message_id: Option<&str>,
    ) -> Result<String, Invalid> {
        let given = |text: &&str| !text.trim().is_empty();
        let id = idempotency_header.filter(given).or(message_id.filter(given));
        id.map(|id| self.of_id(id)).ok_or_else(|| {
            Invalid::new("message", "has neither an idempotency header nor a message id: set one of them")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Consumer, KeyPart, LedgerKeys};

    const PLACED: Consumer<'static> = Consumer { bus: "orders", group: "billing", alias: "placed" };

    /// A consumer in another language only has to join the parts.
    /// Holds: LDG-02.
    #[test]
    fn a_key_is_its_parts_joined_by_colons() {
        let keys = LedgerKeys::new(PLACED).unwrap();
        for (id, key) in [
            ("17", "orders:billing:placed:17"),
            ("urn:uuid:1:2", "orders:billing:placed:urn:uuid:1:2"),
            ("50%3A%25 ü", "orders:billing:placed:50%3A%25 ü"),
        ] {
            assert_eq!(keys.of_id(id), key);
        }
    }

    /// Holds: LDG-02.
    #[test]
    fn a_colon_in_bus_group_or_alias_is_rejected_unless_allowed_by_name() {
        for (consumer, part, name) in [
            (Consumer { bus: "a:b", ..PLACED }, KeyPart::Bus, "bus"),
            (Consumer { group: "a:b", ..PLACED }, KeyPart::Group, "group"),
            (Consumer { alias: "a:b", ..PLACED }, KeyPart::Alias, "alias"),
        ] {
            let error = LedgerKeys::new(consumer).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} contains a colon")), "{error}");
            let others: Vec<_> = [KeyPart::Bus, KeyPart::Group, KeyPart::Alias]
                .into_iter()
                .filter(|other| *other != part)
                .collect();
            assert!(
                LedgerKeys::with_colons_in(consumer, &others).is_err(),
                "{name} is not among the allowed parts"
            );
            let key = LedgerKeys::with_colons_in(consumer, &[part]).unwrap().of_id("17");
            assert_eq!(key, format!("{}:{}:{}:17", consumer.bus, consumer.group, consumer.alias));
        }
    }

    /// Holds: LDG-02.
    #[test]
    fn the_key_uses_the_idempotency_header_and_falls_back_to_the_message_id() {
        let keys = LedgerKeys::new(PLACED).unwrap();
        let key = |header, id| keys.of_message(header, id);
        assert_eq!(key(Some("h"), Some("m")).unwrap(), "orders:billing:placed:h");
        assert_eq!(key(None, Some("m")).unwrap(), "orders:billing:placed:m");
        assert_eq!(key(Some(" "), Some("m")).unwrap(), "orders:billing:placed:m");
        assert_eq!(key(Some("h"), None).unwrap(), "orders:billing:placed:h");
        for missing in [key(None, None), key(Some(""), Some(" "))] {
            assert!(
                missing.unwrap_err().to_string().contains("neither an idempotency header nor a message id")
            );
        }
    }
}
