//! Namespaces: the keys of the four faces, and of two tenants, are apart.

use oncebox_core::{Accepted, Begun, Divergence, Namespace, State};

use super::kit::{Draft, command, key_in, mail, message_for, owner, sighting};
use crate::fixture::{Fixture, TestResult};

/// One source and id in four namespaces are four keys.
/// Holds: RULE-02.
pub async fn the_faces_have_their_own_keys(fixture: Fixture) -> TestResult {
    for namespace in Namespace::ALL {
        fixture.accept(&message_for(key_in(namespace, "shop", "1"))).await?;
        fixture.sight(sighting(key_in(namespace, "shop", "2"))).await?;
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
    let again = fixture.again(&command("acme", "1")).await?;
    assert_eq!(again, Accepted::Duplicate { receipt: acme, diverged: false });
    Ok(())
}

/// Where commands are strict, the same key with another submission is a conflict; otherwise the first one stands.
/// Holds: CMD-04, CMD-12.
pub async fn a_strict_command_key_conflicts(fixture: Fixture) -> TestResult {
    let receipt = fixture.accept(&command("acme", "1").correlation("first")).await?;
    let other = command("acme", "1").payload("second").correlation("second");
    let lenient = fixture.again(&other).await?;
    assert_eq!(lenient, Accepted::Duplicate { receipt: receipt.clone(), diverged: true });
    let strict = fixture.again(&other.divergence(Divergence::Conflict)).await?;
    assert_eq!(strict, Accepted::Conflict(receipt.clone()));
    assert_eq!(receipt.trace.correlation(), Some("first"));
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

/// A key that one face has processed is not processed for another.
/// Holds: RULE-02.
pub async fn processed_in_one_face_is_not_processed_in_another(fixture: Fixture) -> TestResult {
    fixture.finish(&message_for(key_in(Namespace::Inbox, "shop", "1"))).await?;
    let ledger = key_in(Namespace::Ledger, "shop", "1");
    let seen = fixture.sight(sighting(ledger.clone())).await?;
    assert_eq!(seen.state, State::Seen);
    let begun = fixture.try_begin(&ledger, owner(1)).await?;
    assert!(matches!(begun, Begun::Acquired { .. }), "{begun:?}");
    Ok(())
}
