//! Each caveat at its boundary, and facts that a request does not have.

use super::{HeadFacts, MessageFacts, VerifiedToken};
use crate::caveat::{Caveat, CaveatKind, DeliveryId};
use crate::identifier::Nonce;
use crate::key::{KeyId, RootKey};
use crate::keyring::Keyring;
use crate::operation::{ApiNamespace, ApiOperation};
use crate::refusal::{AuthReason, Refusal, ScopeReason};
use crate::token::Token;

const NOW: u64 = 1_800_000_000;

fn keyring() -> Keyring {
    Keyring::new(KeyId::new("k1").unwrap(), RootKey::new(&[1; 32]).unwrap())
}

fn verified(caveats: &[&str]) -> VerifiedToken {
    let keyring = keyring();
    let mut token = keyring.mint(Nonce::new([7; 16]), &[Caveat::Expires(u64::MAX)]).unwrap();
    for text in caveats {
        token = token.attenuate(&Caveat::parse(text).unwrap()).unwrap();
    }
    keyring.verify(&token).unwrap()
}

/// A token that was minted with these caveats.
fn minted(caveats: &[&str]) -> VerifiedToken {
    let caveats: Vec<_> = caveats.iter().map(|text| Caveat::parse(text).unwrap()).collect();
    let keyring = keyring();
    keyring.verify(&keyring.mint(Nonce::new([7; 16]), &caveats).unwrap()).unwrap()
}

fn head() -> HeadFacts {
    let client = Some("192.0.2.7".parse().unwrap());
    let namespace = Some(ApiNamespace::Mailbox);
    HeadFacts { operation: ApiOperation::Send, namespace, client, payload_bytes_min: 100 }
}

fn no_facts() -> HeadFacts {
    HeadFacts { operation: ApiOperation::Stats, namespace: None, client: None, payload_bytes_min: 0 }
}

fn delivery(fence: u64) -> DeliveryId {
    DeliveryId { uid: 0x0198_c5f2_8a6e_7cc3_98c4_dc0c_0c07_398f, fence: fence.try_into().unwrap() }
}

fn denied(kind: CaveatKind) -> Result<(), Refusal> {
    Err(Refusal::Scope(ScopeReason::Caveat(kind)))
}

#[test]
fn the_head_is_checked_against_its_caveats() {
    use CaveatKind::{BytesMax, Client, Namespaces, Operations};
    for (caveats, expected) in [
        (&[][..], Ok(())),
        (&["op = send"], Ok(())),
        (&["op = recv,send", "op = ack,send"], Ok(())),
        (&["op = send", "op = ack"], denied(Operations)),
        (&["op = recv,send_batch"], denied(Operations)),
        (&["namespace = inbox,mailbox"], Ok(())),
        (&["namespace = inbox"], denied(Namespaces)),
        (&["client = 192.0.2.0/29"], Ok(())),
        (&["client = 192.0.2.8/29"], denied(Client)),
        (&["client = ::/0"], denied(Client)),
        (&["client = 0.0.0.0/0", "client = 192.0.2.7/32"], Ok(())),
        (&["bytes_max = 100"], Ok(())),
        (&["bytes_max = 200", "bytes_max = 99"], denied(BytesMax)),
        (
            &["rate = 1/s", "name = n", "topic = t", "delivery = 0198c5f2-8a6e-7cc3-98c4-dc0c0c07398f/7"],
            Ok(()),
        ),
    ] {
        assert_eq!(verified(caveats).check_head(&head(), NOW), expected, "{caveats:?}");
    }
    for (caveat, expected) in [
        ("op = stats", Ok(())),
        ("namespace = commands", Ok(())),
        ("client = 0.0.0.0/0", denied(Client)),
        ("bytes_max = 0", Ok(())),
    ] {
        assert_eq!(verified(&[caveat]).check_head(&no_facts(), NOW), expected, "without facts: {caveat}");
    }
    let mapped = HeadFacts { client: Some("::ffff:192.0.2.7".parse().unwrap()), ..head() };
    assert_eq!(verified(&["client = 192.0.2.7/32"]).check_head(&mapped, NOW), Ok(()));
    assert_eq!(verified(&["client = ::/0"]).check_head(&mapped, NOW), denied(Client));
}

#[test]
fn the_namespace_of_a_message_must_be_known() {
    let inboxes = verified(&["namespace = inbox,mailbox", "namespace = inbox"]);
    let check = |namespace| inboxes.check_message(&MessageFacts { namespace, ..MessageFacts::default() });
    assert_eq!(check(Some(ApiNamespace::Inbox)), Ok(()));
    for namespace in [None, Some(ApiNamespace::Mailbox), Some(ApiNamespace::Ledger)] {
        assert_eq!(check(namespace), denied(CaveatKind::Namespaces), "{namespace:?}");
    }
    assert_eq!(verified(&[]).check_message(&MessageFacts::default()), Ok(()));
}

/// The mark differs between tokens; what is attenuated from one and ends with it has the same.
#[test]
fn a_delivery_is_marked_with_the_nonce_of_its_token() {
    let keyring = keyring();
    let mint = |nonce| keyring.mint(Nonce::new([nonce; 16]), &[Caveat::Expires(1_900_000_000)]).unwrap();
    let (token, other) = (mint(7), mint(8));
    let mark = |token: &Token, number| keyring.verify(token).unwrap().delivery_mark(number);
    let narrower = token.attenuate(&Caveat::parse("op = ack").unwrap()).unwrap();
    assert_eq!(mark(&narrower, 1), mark(&token, 1));
    let earlier = token.attenuate(&Caveat::Expires(1_800_000_000)).unwrap();
    assert_ne!(mark(&earlier, 1), mark(&token, 1), "it could settle what others receive after its end");
    assert_ne!(mark(&token, 2), mark(&token, 1));
    assert_ne!(mark(&other, 1), mark(&token, 1));
    let other_key = Keyring::new(KeyId::new("k1").unwrap(), RootKey::new(&[9; 32]).unwrap());
    let same_nonce = other_key.mint(Nonce::new([7; 16]), &[Caveat::Expires(1_900_000_000)]).unwrap();
    assert_ne!(other_key.verify(&same_nonce).unwrap().delivery_mark(1), mark(&token, 1));
    assert!(format!("{:?}", keyring.verify(&token).unwrap()).contains("marks: DeliveryMarks,"));
}

#[test]
fn topics_are_compared_byte_by_byte() {
    use CaveatKind::{Topic, TopicPrefix};
    for (caveat, allowed, refused) in [
        ("topic = a", &["a"][..], &["", "ab", "A", " a", "a ", "а", "a.", "a\0"][..]),
        ("topic = orders.", &["orders."], &["orders", "orders.a"]),
        ("topic = *", &["*"], &["a"]),
        (
            "topic_prefix = orders.",
            &["orders.a", "orders..", "orders./", "orders.a.b", "orders. "],
            &[
                "",
                "orders",
                "orders.",
                "orders/a",
                "orders:a",
                "orders%2Ea",
                "Orders.a",
                "ordersXa",
                "x.orders.a",
            ],
        ),
        ("topic_prefix = orders/", &["orders/a"], &["orders./", "orders.a", "orders", "orders%2Fa"]),
        ("topic_prefix = a:b:", &["a:b:c"], &["a:b:", "a:bc:d", "a:"]),
    ] {
        let token = verified(&[caveat]);
        let kind = Caveat::parse(caveat).unwrap().kind();
        assert!(matches!(kind, Topic | TopicPrefix));
        let check = |topic| token.check_message(&MessageFacts { topic, ..MessageFacts::default() });
        for topic in allowed {
            assert_eq!(check(Some(topic)), Ok(()), "{caveat}: {topic:?}");
        }
        for topic in refused {
            assert_eq!(check(Some(topic)), denied(kind), "{caveat}: {topic:?}");
        }
        assert_eq!(check(None), denied(kind), "{caveat}: any topic");
    }
    let both = verified(&["topic_prefix = a.", "topic_prefix = a.b.", "topic = a.b.c"]);
    let check = |topic| both.check_message(&MessageFacts { topic: Some(topic), ..MessageFacts::default() });
    assert_eq!((check("a.b.c"), check("a.b.d")), (Ok(()), denied(Topic)));
    assert_eq!(check("a.c"), denied(TopicPrefix));
}

#[test]
fn sizes_and_deliveries_are_exact() {
    let sized = verified(&["bytes_max = 1000"]);
    let check =
        |payload_bytes| sized.check_message(&MessageFacts { payload_bytes, ..MessageFacts::default() });
    assert_eq!((check(0), check(1_000), check(1_001)), (Ok(()), Ok(()), denied(CaveatKind::BytesMax)));

    let one = verified(&["delivery = 0198c5f2-8a6e-7cc3-98c4-dc0c0c07398f/7"]);
    let check = |delivery| one.check_message(&MessageFacts { delivery, ..MessageFacts::default() });
    assert_eq!(check(Some(delivery(7))), Ok(()));
    let other = DeliveryId { uid: delivery(7).uid ^ 1, ..delivery(7) };
    for facts in [None, Some(delivery(6)), Some(delivery(8)), Some(other)] {
        assert_eq!(check(facts), denied(CaveatKind::Delivery), "{facts:?}");
    }
    let none =
        verified(&[]).check_message(&MessageFacts { delivery: Some(delivery(7)), ..MessageFacts::default() });
    assert_eq!(none, Ok(()));
}

#[test]
fn only_the_minter_can_let_a_token_reach_tenants() {
    let check = |token: &VerifiedToken, tenant| {
        token.check_message(&MessageFacts { tenant, ..MessageFacts::default() })
    };
    let no_tenant = Err(Refusal::Scope(ScopeReason::NoTenant));
    let without = minted(&["expires = 1900000000", "topic = t"]);
    assert_eq!(check(&without, Some("acme")), no_tenant);
    for caveat in ["tenant = acme", "tenant = *"] {
        assert_eq!(check(&verified(&[caveat]), Some("acme")), no_tenant, "a holder added {caveat}");
    }
    let acme = minted(&["expires = 1900000000", "tenant = acme"]);
    assert_eq!(check(&acme, Some("acme")), Ok(()));
    for tenant in [None, Some(""), Some("acm"), Some("acme2"), Some("Acme"), Some("*")] {
        assert_eq!(check(&acme, tenant), denied(CaveatKind::Tenant), "{tenant:?}");
    }
    let any = minted(&["tenant = *", "expires = 1900000000"]);
    assert_eq!(
        [check(&any, None), check(&any, Some("acme")), check(&any, Some("b"))],
        [Ok(()), Ok(()), Ok(())]
    );
    let narrowed = minted(&["tenant = *", "tenant = acme", "expires = 1900000000"]);
    assert_eq!(
        [check(&narrowed, Some("acme")), check(&narrowed, Some("b"))],
        [Ok(()), denied(CaveatKind::Tenant)]
    );
}

#[test]
fn a_token_is_valid_from_its_first_second_and_before_its_last() {
    let caveats = ["not_before = 1000", "not_before = 900", "expires = 2000", "expires = 3000"];
    let times = |token: &VerifiedToken, times: [u64; 4]| times.map(|now| token.check_head(&head(), now));
    let (early, late) = (Err(AuthReason::NotYetValid.into()), Err(AuthReason::Expired.into()));
    let exact = minted(&caveats);
    assert_eq!(times(&exact, [999, 1_000, 1_999, 2_000]), [early.clone(), Ok(()), Ok(()), late.clone()]);
    let keyring = keyring().with_skew_seconds(120).unwrap();
    let caveats = caveats.map(|text| Caveat::parse(text).unwrap());
    let tolerant = keyring.verify(&keyring.mint(Nonce::new([7; 16]), &caveats).unwrap()).unwrap();
    assert_eq!(times(&tolerant, [879, 880, 2_119, 2_120]), [early, Ok(()), Ok(()), late.clone()]);
    assert_eq!(tolerant.expires(), 2_000);

    let ended = minted(&["expires = 0"]);
    assert_eq!(ended.check_head(&head(), 0), late);
    let last = minted(&["expires = 18446744073709551615"]);
    assert_eq!((last.check_head(&head(), u64::MAX - 1), last.check_head(&head(), u64::MAX)), (Ok(()), late));
}

#[test]
fn a_token_that_is_only_expired_says_so_and_every_other_refusal_comes_first() {
    let refusal = |caveats: &[&str]| minted(caveats).check_head(&head(), NOW).unwrap_err().reason();
    assert_eq!(refusal(&["expires = 5", "op = send"]), "expired");
    assert_eq!(refusal(&["expires = 5", "op = ack"]), "caveat");
    assert_eq!(refusal(&["expires = 5", "not_before = 18000000000"]), "not_yet_valid");
}

#[test]
fn all_rates_the_earliest_end_and_all_names_are_known() {
    let token =
        minted(&["rate = 10/s", "name = a", "expires = 50", "rate = 5/s", "name = b", "expires = 60"]);
    assert_eq!(token.rates().map(u32::from).collect::<Vec<_>>(), [10, 5]);
    assert_eq!(token.expires(), 50);
    assert!(token.names().eq(["a", "b"]));
    assert_eq!(token.identifier().to_string(), "1:k1:07070707070707070707070707070707");
    assert_eq!(verified(&[]).rates().count(), 0);
}
