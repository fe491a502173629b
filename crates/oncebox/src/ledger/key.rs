//! Keys for consumers of a bus.

use oncebox_core::Invalid;

/// Whose keys these are: the parts of a key that are the same for every message of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumer<'a> {
    /// The bus that the messages come over.
    pub bus: &'a str,
    /// The group whose consumers share the work.
    pub group: &'a str,
    /// What kind of message it is.
    pub alias: &'a str,
}

/// A part of a key that may be allowed to hold a colon.
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

/// Makes the keys under which a consumer group remembers messages of a bus: `{bus}:{group}:{alias}:{id}`, plainly joined, so that
/// a consumer in any language gets the same key for the same message.
///
/// ```
/// use oncebox::ledger::{Consumer, LedgerKeys};
///
/// # fn main() -> Result<(), oncebox::Invalid> {
/// let keys = LedgerKeys::new(Consumer { bus: "orders", group: "billing", alias: "placed" })?;
/// // The idempotency header of the message if it has one, its message id if not.
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
    /// The keys of this consumer. A colon in one of the parts is [`Invalid`]: two consumers could share keys.
    pub fn new(consumer: Consumer<'_>) -> Result<Self, Invalid> {
        Self::with_colons_in(consumer, &[])
    }

    /// The same with colons in the named parts. The caller makes sure that no other consumer's parts, joined by colons, are the
    /// same text: `a:b` with `c` and `a` with `b:c` are.
    pub fn with_colons_in(consumer: Consumer<'_>, allowed: &[KeyPart]) -> Result<Self, Invalid> {
        let Consumer { bus, group, alias } = consumer;
        let parts =
            [(KeyPart::Bus, "bus", bus), (KeyPart::Group, "group", group), (KeyPart::Alias, "alias", alias)];
        for (part, name, text) in parts {
            if text.contains(':') && !allowed.contains(&part) {
                let text = "holds a colon, so that its keys could be another consumer's: rename it, or allow it by \
                            `LedgerKeys::with_colons_in`";
                return Err(Invalid::new(name, text));
            }
        }
        Ok(Self { prefix: format!("{bus}:{group}:{alias}:") })
    }

    /// The key of the message with this id, which may hold colons: it comes last.
    pub fn of_id(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    /// The key of a message: by its idempotency header or, if that is missing or blank, by its message id. Without either it is
    /// [`Invalid`].
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

    /// A consumer in another language joins the parts, and nothing else.
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
    fn a_colon_in_bus_group_or_alias_is_refused_unless_it_is_allowed_by_name() {
        for (consumer, part, name) in [
            (Consumer { bus: "a:b", ..PLACED }, KeyPart::Bus, "bus"),
            (Consumer { group: "a:b", ..PLACED }, KeyPart::Group, "group"),
            (Consumer { alias: "a:b", ..PLACED }, KeyPart::Alias, "alias"),
        ] {
            let refused = LedgerKeys::new(consumer).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{name} holds a colon")), "{refused}");
            let others: Vec<_> = [KeyPart::Bus, KeyPart::Group, KeyPart::Alias]
                .into_iter()
                .filter(|other| *other != part)
                .collect();
            assert!(
                LedgerKeys::with_colons_in(consumer, &others).is_err(),
                "{name} is not among those allowed"
            );
            let key = LedgerKeys::with_colons_in(consumer, &[part]).unwrap().of_id("17");
            assert_eq!(key, format!("{}:{}:{}:17", consumer.bus, consumer.group, consumer.alias));
        }
    }

    /// Holds: LDG-02.
    #[test]
    fn the_idempotency_header_is_the_id_and_the_message_id_stands_in_for_it() {
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
