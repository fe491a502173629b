//! Maps request fields to command-line flags, so that the server's errors name what the user typed.

/// Pairs of a field in the server's errors and the flag or argument on the command line.
pub(crate) type FlagNames = [(&'static str, &'static str)];

pub(crate) const SEND: &FlagNames = &[
    ("topic", "TOPIC"),
    ("idem_key", "--key"),
    ("payload_b64", "the payload"),
    ("attrs", "--attr"),
    ("a name in attrs", "a name in --attr"),
    ("a name or value in attrs", "a name or value in --attr"),
    ("partition", "--partition"),
    ("shard_key", "--shard-key"),
    ("due_in_ms", "--due-in"),
    ("expires_in_ms", "--expires-in"),
];

pub(crate) const RECV: &FlagNames = &[
    ("topic", "TOPIC"),
    ("max_messages", "--max"),
    ("visibility_ms", "--visibility"),
    ("wait_ms", "--wait"),
];

pub(crate) const SETTLE: &FlagNames = &[
    ("delivery", "DELIVERY"),
    ("reason", "--reason"),
    ("visibility_ms", "--visibility"),
    ("delay_ms", "--delay"),
    ("dead", "--dead"),
];

pub(crate) const LEDGER: &FlagNames =
    &[("key", "KEY"), ("owner", "--owner"), ("leaseSeconds", "--lease"), ("leaseId", "--lease-id")];

pub(crate) const OPERATOR: &FlagNames = &[
    ("topic", "--topic"),
    ("source", "--source"),
    ("reason", "--reason"),
    ("error", "--error"),
    ("since", "--since"),
    ("until", "--until"),
    ("limit", "--limit"),
    ("because", "--because"),
];

pub(crate) const PAUSE: &FlagNames = &[("topic", "TOPIC"), ("because", "--because")];

pub(crate) const EXPLAIN: &FlagNames = &[("source", "--topic"), ("id", "--key")];

pub(crate) const REVOKE: &FlagNames = &[("target", "--nonce or --key"), ("because", "--because")];

/// For commands that send no fields.
pub(crate) const NONE: &FlagNames = &[];

/// Replaces a field name at the start of the text, or after a colon, by the flag of the command line.
pub(crate) fn translate(text: &str, flag_names: &FlagNames) -> String {
    let starts = std::iter::once(0).chain(text.match_indices(": ").map(|(index, colon)| index + colon.len()));
    for start in starts {
        let (before, rest) = text.split_at(start);
        // The longest match: one name may be a prefix of another.
        let known = flag_names.iter().filter(|(field, _)| {
            let rest = rest.strip_prefix(field);
            rest.is_some_and(|rest| rest.starts_with([' ', '.', '[']))
        });
        if let Some((field, flag)) = known.max_by_key(|(field, _)| field.len()) {
            return format!("{before}{flag}{}", &rest[field.len()..]);
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{RECV, SEND, translate};

    #[test]
    fn a_field_is_replaced_by_its_flag() {
        let translated = translate("visibility_ms is 100, but must be from 250 to 43200000", RECV);
        assert_eq!(translated, "--visibility is 100, but must be from 250 to 43200000");
        assert_eq!(
            translate("1 of 2 were not settled: topic is empty", RECV),
            "1 of 2 were not settled: TOPIC is empty"
        );
        assert_eq!(translate("a name in attrs is too long", SEND), "a name in --attr is too long");
        for text in ["topics are many", "something else", "the topic is unknown", ""] {
            assert_eq!(translate(text, SEND), text);
        }
    }
}
