//! The texts of caveats: one for each meaning, and nothing else.

use super::{Caveat, CaveatError, CaveatKind, DeliveryId};
use crate::limits::CAVEAT_BYTES_MAX;
use crate::operation::ApiOperation;

#[track_caller]
fn assert_canonical(text: &str) -> Caveat {
    let caveat = Caveat::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(caveat.to_string(), text);
    assert!(text.starts_with(&format!("{} = ", caveat.kind())), "{text}");
    caveat
}

#[test]
fn every_kind_has_a_canonical_text() {
    for kind in CaveatKind::ALL {
        assert_eq!(assert_canonical(kind.example()).kind(), *kind);
    }
    for text in [
        "op = work",
        "op = ack,extend,nack,recv,recv_stream,send,send_batch,settle,work",
        "namespace = commands,inbox,ledger,mailbox",
        "topic =  = ",
        "topic = größe",
        "topic = *",
        "topic_prefix = a/",
        "topic_prefix = a:b:",
        "topic_prefix = ..",
        "tenant = *",
        "not_before = 0",
        "expires = 18446744073709551615",
        "bytes_max = 0",
        "rate = 4294967295/s",
        "client = 0.0.0.0/0",
        "client = 2001:db8::/32",
        "delivery = 00000000-0000-0000-0000-000000000000/1",
        "delivery = ffffffff-ffff-ffff-ffff-ffffffffffff/18446744073709551615",
    ] {
        assert_canonical(text);
    }
    assert_canonical(&format!("name = {}", "ü".repeat(64)));
}

/// The operations of operators are the longest group.
#[test]
fn one_caveat_has_space_for_a_group_of_operations() {
    let all: Vec<_> = ApiOperation::ALL.iter().map(|operation| operation.as_str()).collect();
    let others = "ack extend get_key mark_processed nack recv recv_stream release send send_batch settle try_begin work";
    let others: Vec<_> = others.split(' ').collect();
    let access = vec!["list_revocations", "revoke"];
    let is_operators = |name: &&str| !others.contains(name) && !access.contains(name);
    let operators: Vec<_> = all.iter().copied().filter(is_operators).collect();
    assert_eq!(operators.len() + others.len() + access.len(), all.len());
    for group in [&others, &operators, &access] {
        let text = format!("op = {}", group.join(","));
        assert_canonical(&text);
        assert!(text.len() <= CAVEAT_BYTES_MAX, "{} bytes", text.len());
    }
}

#[test]
fn values_that_are_not_canonical_are_refused() {
    for text in [
        "op = ",
        "op = send,ack",
        "op = ack,ack",
        "op = ack, recv",
        "op = ack,",
        "op = ,ack",
        "op = Ack",
        "op = healthz",
        "op = *",
        "namespace = ",
        "namespace = mailbox,inbox",
        "namespace = Inbox",
        "namespace = other",
        "topic = ",
        "topic = a\tb",
        "topic = a\0",
        "topic = \u{9b}",
        "topic_prefix = ",
        "topic_prefix = .",
        "topic_prefix = orders",
        "topic_prefix = orders-",
        "topic_prefix = orders. ",
        "tenant = ",
        "not_before = ",
        "not_before = +1",
        "not_before = 01",
        "not_before = 1.0",
        "expires = -1",
        "expires = 18446744073709551616",
        "expires = 1 ",
        "bytes_max = 1k",
        "rate = 1",
        "rate = 0/s",
        "rate = 1/m",
        "rate = 01/s",
        "rate = 1 /s",
        "rate = 4294967296/s",
        "client = 10.0.0.0",
        "client = 10.0.0.1/8",
        "client = 10.0.0.0/08",
        "client = 2001:DB8::/32",
        "client = 2001:db8:0::/32",
        "client = ::ffff:10.0.0.0/104",
        "delivery = 0198c5f2-8a6e-7cc3-98c4-dc0c0c07398f",
        "delivery = 0198c5f2-8a6e-7cc3-98c4-dc0c0c07398f/0",
        "delivery = 0198c5f2-8a6e-7cc3-98c4-dc0c0c07398f/07",
        "delivery = 0198C5F2-8A6E-7CC3-98C4-DC0C0C07398F/7",
        "delivery = 0198c5f28a6e7cc398c4dc0c0c07398f/7",
        "delivery = 0198c5f2-8a6e-7cc3-98c4dc0c0c0-7398f/7",
        "delivery = 198c5f2-8a6e-7cc3-98c4-dc0c0c07398f/7",
        "name = ",
        "name = a\nb",
    ] {
        let error = Caveat::parse(text).unwrap_err();
        let (name, _) = text.split_once(" = ").unwrap();
        assert!(matches!(error, CaveatError::Value { .. }), "{text}: {error}");
        assert_eq!(error.name(), name);
    }
    Caveat::parse(&format!("name = {}", "ü".repeat(65))).unwrap_err();
}

#[test]
fn other_names_and_forms_are_refused_and_only_plain_names_shown() {
    for (text, name) in [
        ("aud = console", "aud"),
        ("OP = ack", "?"),
        (" op = ack", "?"),
        ("\u{1B}[2J = x", "?"),
        ("<b> = x", "?"),
        (" = x", ""),
    ] {
        assert_eq!(Caveat::parse(text), Err(CaveatError::Unknown { name: name.to_owned() }), "{text}");
    }
    for text in ["", "op", "op=ack", "op= ack", "op =ack", "op :ack"] {
        assert_eq!(Caveat::parse(text), Err(CaveatError::Form), "{text}");
    }
    let long = Caveat::parse(&format!("{} = x", "a".repeat(65))).unwrap_err();
    assert_eq!(long.name(), "?");
}

#[test]
fn texts_become_values() {
    let Caveat::Operations(operations) = assert_canonical("op = recv,send") else { panic!("op is a set") };
    assert!(operations.into_iter().eq([ApiOperation::Recv, ApiOperation::Send]));
    let fence = 7.try_into().unwrap();
    let delivery = DeliveryId { uid: 0x0198_c5f2_8a6e_7cc3_98c4_dc0c_0c07_398f, fence };
    assert_eq!(assert_canonical(CaveatKind::Delivery.example()), Caveat::Delivery(delivery));
    assert_eq!(assert_canonical("rate = 5/s"), Caveat::Rate(5.try_into().unwrap()));
}

#[test]
fn errors_say_what_to_write() {
    let error = Caveat::parse("op = recv,ack").unwrap_err().to_string();
    let expected = "the value of `op` is not valid: write it as in `op = ack,recv`, known names in alphabetical order, each once";
    assert_eq!(error, expected);
}
