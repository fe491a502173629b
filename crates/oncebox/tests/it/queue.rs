//! Claiming and settling with the work queue.

use std::time::Duration;

use oncebox::{
    ErrorKind, MessageState,
    message::DeadReason,
    queue::{Extended, Settled},
};

use super::fixture::{key, on_every_store, on_every_store_with};

const LEASE: Duration = Duration::from_secs(30);

/// Holds: IBX-030, IBX-031, IBX-033, IBX-034, IBX-035, IBX-036, IBX-037, IBX-039, IBX-044, IBX-047, IBX-049.
#[test]
fn a_claimed_message_is_leased_and_an_acked_one_is_done() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        assert_eq!(queue.claim(owner, LEASE, 10).await.unwrap(), []);
        for id in ["1", "2", "3"] {
            fixture.enqueue("t", id).await;
        }
        let claimed = queue.claim(owner, LEASE, 2).await.unwrap();
        let ids: Vec<_> = claimed.iter().map(|delivery| delivery.key.id.as_str()).collect();
        assert_eq!(ids, ["1", "2"]);
        let lease = *fixture.show("1").await.lease().unwrap();
        assert_eq!(lease.owner, owner);
        assert_eq!(lease.until.since(fixture.show("1").await.accepted_at), LEASE);
        assert_eq!(queue.claim(queue.new_owner(), LEASE, 10).await.unwrap().len(), 1);
        assert_eq!(queue.ack(owner, &[key("1"), key("2")]).await.unwrap(), [Settled::Done; 2]);
        assert_eq!(queue.ack(owner, &[key("1")]).await.unwrap(), [Settled::Done], "repeating an ack");
        let done = fixture.show("1").await;
        assert_eq!((done.state, done.lease()), (MessageState::Done, None));
    });
}

/// Holds: IBX-040, IBX-041, IBX-043, IBX-058, IBX-130.
#[test]
fn a_call_with_an_invalid_value_is_rejected() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        fixture.enqueue("t", "1").await;
        assert_eq!(queue.claim(owner, Duration::ZERO, 1).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(queue.claim(owner, LEASE, 0).await.unwrap_err().kind(), ErrorKind::Invalid);
        queue.claim(owner, LEASE, 1).await.unwrap();
        let refused = queue.abandon(owner, &[key("1")], None, Some(Duration::ZERO)).await.unwrap_err();
        assert_eq!(refused.to_string(), "delay must be greater than zero");
        assert!(fixture.show("1").await.lease().is_some(), "nothing changed");
        assert!(oncebox::queue::Owner::new(0).is_err());
    });
}

/// Holds: IBX-045, IBX-046, IBX-048, IBX-054, IBX-055, IBX-059, IBX-062, IBX-063, IBX-066, RULE-05.
#[test]
fn only_the_owner_can_settle_and_others_get_lease_lost() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let (owner, other) = (queue.new_owner(), queue.new_owner());
        fixture.enqueue("t", "1").await;
        queue.claim(owner, LEASE, 1).await.unwrap();
        let keys = [key("1"), key("unknown")];
        assert_eq!(queue.ack(other, &keys).await.unwrap(), [Settled::LeaseLost; 2]);
        assert_eq!(queue.abandon(other, &keys, None, None).await.unwrap(), [Settled::LeaseLost; 2]);
        assert_eq!(queue.fail(other, &keys, "x").await.unwrap(), [Settled::LeaseLost; 2]);
        assert_eq!(queue.extend(other, &keys, LEASE).await.unwrap(), [Extended::LeaseLost; 2]);
        assert_eq!(queue.ack(owner, &[]).await.unwrap(), []);
        assert_eq!(queue.abandon(owner, &[], None, None).await.unwrap(), []);
        assert_eq!(queue.fail(owner, &[], "x").await.unwrap(), []);
        let twice = [key("1"), key("unknown"), key("1")];
        let settled = queue.ack(owner, &twice).await.unwrap();
        assert_eq!(settled, [Settled::Done, Settled::LeaseLost, Settled::Done]);
    });
}

/// Holds: IBX-050, IBX-051, IBX-052, IBX-053, IBX-056, IBX-057, IBX-080, IBX-081.
#[test]
fn an_abandoned_message_is_retried_after_2_4_8_seconds_or_the_given_delay() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        fixture.enqueue("t", "1").await;
        for (attempt, seconds, given) in [(1, 2, None), (2, 4, None), (3, 9, Some(Duration::from_secs(9)))] {
            assert_eq!(queue.claim(owner, LEASE, 1).await.unwrap().len(), 1);
            let settled = queue.abandon(owner, &[key("1")], Some("bank: closed"), given).await.unwrap();
            assert!(matches!(settled[..], [Settled::Retrying { .. }]));
            let found = fixture.show("1").await;
            assert_eq!((found.attempts, found.lease()), (attempt, None));
            assert_eq!(found.last_error.unwrap().as_str(), "bank: closed");
            fixture.advance(Duration::from_millis(seconds * 1_000 - 1));
            assert_eq!(queue.claim(owner, LEASE, 1).await.unwrap().len(), 0);
            fixture.advance(Duration::from_millis(1));
        }
    });
}

/// Holds: IBX-060, IBX-061, IBX-064, IBX-065, IBX-067.
#[test]
fn a_failed_message_is_dead_with_its_error() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        for (id, error) in [("1", "no such account"), ("2", "")] {
            fixture.enqueue("t", id).await;
            queue.claim(owner, LEASE, 1).await.unwrap();
            let settled = queue.fail(owner, &[key(id)], error).await.unwrap();
            assert_eq!(settled, [Settled::Dead { reason: DeadReason::Failed }]);
            let dead = fixture.show(id).await;
            assert_eq!((dead.state, dead.lease()), (MessageState::Dead, None));
            assert_eq!(dead.last_error.map(|error| error.as_str().to_owned()).unwrap_or_default(), error);
        }
        assert_eq!(queue.claim(owner, LEASE, 1).await.unwrap(), []);
    });
}

/// Holds: IBX-068, IBX-069, IBX-070, IBX-071, RULE-07.
#[test]
fn reaping_releases_messages_of_a_crashed_worker() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let (crashed, next) = (queue.new_owner(), queue.new_owner());
        fixture.enqueue("t", "1").await;
        queue.claim(crashed, LEASE, 1).await.unwrap();
        assert_eq!(queue.reap().await.unwrap(), 0);
        fixture.advance(LEASE);
        assert_eq!(queue.reap().await.unwrap(), 1);
        assert_eq!(queue.reap().await.unwrap(), 0);
        let delivery = queue.claim(next, LEASE, 1).await.unwrap().pop().unwrap();
        assert_eq!((delivery.attempts, delivery.deliveries), (1, 2), "a crash counts as an attempt");
        assert_eq!(queue.ack(crashed, &[key("1")]).await.unwrap(), [Settled::LeaseLost]);
        assert_eq!(queue.ack(next, &[key("1")]).await.unwrap(), [Settled::Done]);
    });
}

/// Holds: RULE-05, RULE-07.
#[test]
fn a_lease_can_be_extended_and_released() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        fixture.enqueue("t", "1").await;
        queue.claim(owner, LEASE, 1).await.unwrap();
        fixture.advance(LEASE / 2);
        let extended = queue.extend(owner, &[key("1")], LEASE).await.unwrap();
        assert!(matches!(extended[..], [Extended::Until(_)]));
        fixture.advance(Duration::from_millis(29_999));
        assert_eq!(queue.release(owner, &[key("1")]).await.unwrap(), [Settled::Released]);
        assert_eq!(queue.claim(owner, LEASE, 1).await.unwrap()[0].attempts, 0);
    });
}

/// Holds: IBX-084, RULE-07, RULE-10.
#[test]
fn the_attempt_that_reaches_the_limit_is_the_last() {
    on_every_store_with(
        |builder| builder.attempts_max(2),
        async |fixture| {
            let queue = fixture.oncebox.queue();
            let owner = queue.new_owner();
            fixture.enqueue("t", "1").await;
            queue.claim(owner, LEASE, 1).await.unwrap();
            queue.abandon(owner, &[key("1")], None, None).await.unwrap();
            fixture.advance(Duration::from_secs(2));
            queue.claim(owner, LEASE, 1).await.unwrap();
            let settled = queue.abandon(owner, &[key("1")], None, None).await.unwrap();
            assert_eq!(settled, [Settled::Dead { reason: DeadReason::Exhausted }]);
        },
    );
}
