//! What the command line calls the fields of requests: refusals name what was typed.

/// What the server calls something, and what the command line calls it.
pub(crate) type Terms = [(&'static str, &'static str)];

pub(crate) const SEND: &Terms = &[
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

pub(crate) const RECV: &Terms = &[
    ("topic", "TOPIC"),
    ("max_messages", "--max"),
    ("visibility_ms", "--visibility"),
    ("wait_ms", "--wait"),
];

pub(crate) const SETTLE: &Terms = &[
    ("delivery", "DELIVERY"),
    ("reason", "--reason"),
    ("visibility_ms", "--visibility"),
    ("delay_ms", "--delay"),
    ("dead", "--dead"),
];

pub(crate) const LEDGER: &Terms =
    &[("key", "KEY"), ("owner", "--owner"), ("leaseSeconds", "--lease"), ("leaseId", "--lease-id")];

pub(crate) const OPERATOR: &Terms = &[
    ("topic", "--topic"),
    ("source", "--source"),
    ("reason", "--reason"),
    ("error", "--error"),
    ("since", "--since"),
    ("until", "--until"),
    ("limit", "--limit"),
    ("because", "--because"),
];

pub(crate) const EXPLAIN: &Terms = &[("source", "--topic"), ("id", "--key")];

/// For commands that send nothing.
pub(crate) const NONE: &Terms = &[];

/// The text, with what it names at its beginning, or after a colon, in the words of the command line.
pub(crate) fn translate(text: &str, terms: &Terms) -> String {
    let places = std::iter::once(0).chain(text.match_indices(": ").map(|(place, mark)| place + mark.len()));
    for place in places {
        let (before, rest) = text.split_at(place);
        // The longest one: a name may begin like another.
        let known = terms.iter().filter(|(field, _)| {
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
    fn a_field_is_called_as_it_was_typed() {
        let told = translate("visibility_ms is 100: it must be from 250 to 43200000", RECV);
        assert_eq!(told, "--visibility is 100: it must be from 250 to 43200000");
        assert_eq!(
            translate("1 of 2 do not count: topic is empty", RECV),
            "1 of 2 do not count: TOPIC is empty"
        );
        assert_eq!(translate("a name in attrs is too long", SEND), "a name in --attr is too long");
        for text in ["topics are many", "something else", "the topic is unknown", ""] {
            assert_eq!(translate(text, SEND), text);
        }
    }
}
