//! Keys for consumers of a bus.

use std::fmt::Write;

/// `{bus}:{group}:{alias}:{id}`, the key under which a consumer group remembers a message of a bus.
///
/// A colon or percent sign inside a part is escaped, so that two different messages never share a key.
///
/// ```
/// use oncebox::ledger::LedgerKey;
///
/// let key = LedgerKey { bus: "orders", group: "billing", alias: "placed:v2", id: "17" };
/// assert_eq!(key.to_string(), "orders:billing:placed%3Av2:17");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerKey<'a> {
    /// The bus it came over.
    pub bus: &'a str,
    /// Whose consumers share the work.
    pub group: &'a str,
    /// What the message is.
    pub alias: &'a str,
    /// Its idempotency header, or else its message id.
    pub id: &'a str,
}

impl std::fmt::Display for LedgerKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, part) in [self.bus, self.group, self.alias, self.id].into_iter().enumerate() {
            if place > 0 {
                f.write_char(':')?;
            }
            for letter in part.chars() {
                match letter {
                    ':' => f.write_str("%3A")?,
                    '%' => f.write_str("%25")?,
                    _ => f.write_char(letter)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LedgerKey;

    /// Holds: LDG-02.
    #[test]
    fn parts_do_not_run_into_each_other() {
        let key = |bus, group, alias, id| LedgerKey { bus, group, alias, id }.to_string();
        assert_eq!(key("b", "g", "a", "i"), "b:g:a:i");
        assert_ne!(key("b", "g:a", "x", "i"), key("b", "g", "a:x", "i"));
        assert_ne!(key("b", "g", "%3A", "i"), key("b", "g", ":", "i"));
    }
}
