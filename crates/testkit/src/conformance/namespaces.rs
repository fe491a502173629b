//! Namespaces: the keys of the four namespaces, and of two tenants, are independent.

use oncebox_core::{Accepted, Begun, Divergence, MessageState, Namespace};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, command, key_in, mail, message_for, observation, owner};

/// One source and id in four namespaces are four keys.
/// Holds: RULE-02.
pub async fn each_namespace_has_its_own_keys(fixture: Fixture) -> TestResult {
    for namespace in Namespace::ALL {
        fixture.accept(&message_for(key_in(namespace, "shop", "1"))).await?;
        fixture.observe_new(observation(key_in(namespace, "shop", "2"))).await?;
        fixture.begin(&key_in(namespace, "shop", "3")).await?;
    }
    for namespace in Namespace::ALL {
        assert_eq!(fixture.read(key_in(namespace, "shop", "1")).await?.key.namespace, namespace);
    }
    Ok(())
}

/// An idempotency key belongs to its tenant.
/// Holds: CMD-12, RULE-02.
pub async fn a_command_key_belongs_to_its_tenant(fixture: Fixture) -> TestResult {
    let acme = fixture.accept(&command("acme", "1")).await?;
    let other = fixture.accept(&command("other", "1").payload("second")).await?;
    assert_ne!(acme.uid, other.uid);
    let again = fixture.accept_again(&command("acme", "1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary: acme, diverged: false });
    Ok(())
}

/// With strict commands, the same key with other content is a conflict; otherwise the first content is kept.
/// Holds: CMD-04, CMD-12.
pub async fn a_strict_command_key_conflicts(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&command("acme", "1").correlation("first")).await?;
    let other = command("acme", "1").payload("second").correlation("second");
    let lenient = fixture.accept_again(&other).await?;
    assert_eq!(lenient, Accepted::Duplicate { summary: summary.clone(), diverged: true });
    let strict = fixture.accept_again(&other.divergence(Divergence::Conflict)).await?;
    assert_eq!(strict, Accepted::Conflict(summary.clone()));
    assert_eq!(summary.trace.correlation(), Some("first"));
    Ok(())
}

/// An idempotency key of the mailbox belongs to its topic.
/// Holds: MBX-C-2, MBX-I-2.
pub async fn a_mailbox_key_belongs_to_its_topic(fixture: Fixture) -> TestResult {
    let orders = fixture.accept(&mail("1")).await?;
    let other = message_for(key_in(Namespace::Mailbox, "invoices", "1")).topic("invoices");
    assert_ne!(fixture.accept(&other).await?.uid, orders.uid);
    Ok(())
}

/// A key that was processed in one namespace is not processed in another.
/// Holds: RULE-02.
pub async fn a_key_processed_in_one_namespace_is_not_processed_in_another(fixture: Fixture) -> TestResult {
    fixture.finish(&message_for(key_in(Namespace::Inbox, "shop", "1"))).await?;
    let ledger = key_in(Namespace::Ledger, "shop", "1");
    let seen = fixture.observe_new(observation(ledger.clone())).await?;
    assert_eq!(seen.state, MessageState::Seen);
    let begun = fixture.try_begin(&ledger, owner(1)).await?;
    assert!(matches!(begun, Begun::Acquired { .. }), "{begun:?}");
    Ok(())
}
