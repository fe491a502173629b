//! Orders: marks, redrive, cancel and erase; none of them needs a lease.

use std::num::NonZeroU32;

use oncebox_core::{
    Action, AttemptCount, Bound, Claim, DeadReason, GrantEnd, MessageRef, MessageState, Namespace, Operated,
    Order, Policy, Settled, Uid,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, LEASE, TICK, claim, claim_in, claim_of, error, key, key_in, mail, message, observation, seconds,
    span,
};

const PROCESSED: Action = Action::MarkProcessed { hold: Policy::INBOX.hold };
const REDRIVE: Action = Action::REDRIVE;
const DEAD: Action = Action::MarkDead { error: None };

/// An observed key that is marked Processing is Processing, and still has nothing to deliver.
/// Holds: RULE-04.
/// Replays I-T20.
pub async fn mark_processing_moves_a_seen_key(fixture: Fixture) -> TestResult {
    let seen = fixture.observe_new(observation(key("1"))).await?;
    let marked = fixture.change(key("1"), Action::MarkProcessing).await?;
    assert_eq!((marked.uid, marked.state), (seen.uid, MessageState::Processing));
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// A key that was observed, marked Processing and then marked processed is Done, and processed when it is observed
/// again.
/// Holds: IBX-003, LDG-06.
/// Replays I-T18, I-T19, I-T26.
pub async fn mark_processed_makes_a_key_done(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("1"))).await?;
    fixture.change(key("1"), Action::MarkProcessing).await?;
    fixture.advance(seconds(5)).await;
    assert_eq!(fixture.change(key("1"), PROCESSED).await?.state, MessageState::Done);
    assert_eq!(fixture.read(key("1")).await?.finished_at, Some(fixture.now().await));
    assert!(fixture.observe(observation(key("1"))).await?.is_processed());
    Ok(())
}

/// A message in any state is Done once it is marked processed, and is no longer claimable.
/// Holds: LDG-06, RULE-04, RULE-14.
pub async fn mark_processed_works_on_every_state(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("seen"))).await?;
    fixture.accept_all(&[message("dead"), message("waiting")]).await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    for id in ["seen", "dead", "waiting"] {
        fixture.change(key(id), PROCESSED).await?;
        let done = fixture.read(key(id)).await?;
        assert_eq!((done.state, done.dead, done.content), (MessageState::Done, None, None));
    }
    fixture.expect_claimable(&[]).await
}

/// An unknown key that is marked processed is recorded as Done; an unknown uid is not.
/// Holds: LDG-06, RULE-04.
pub async fn mark_processed_records_an_unknown_key(fixture: Fixture) -> TestResult {
    let done = fixture.change(key("1"), PROCESSED).await?;
    assert_eq!((done.state, done.accepted_at), (MessageState::Done, fixture.now().await));
    assert!(fixture.observe(observation(key("1"))).await?.is_processed());
    assert_eq!(fixture.order(Uid::from_u128(404), PROCESSED).await?, Operated::Unknown);
    Ok(())
}

/// No other order has an effect on an unknown key or uid.
/// Holds: RULE-04.
pub async fn other_orders_record_nothing(fixture: Fixture) -> TestResult {
    for action in [Action::MarkProcessing, DEAD, REDRIVE, Action::Cancel, Action::Erase] {
        assert_eq!(fixture.order(key("1"), action.clone()).await?, Operated::Unknown);
        assert_eq!(fixture.order(Uid::from_u128(404), action).await?, Operated::Unknown);
    }
    fixture.observe_new(observation(key("1"))).await?;
    Ok(())
}

/// A message that is marked dead is Dead now, with the given error; a second mark changes nothing.
/// Holds: RULE-04, MBX-I-4.
/// Replays I-T21, I-T27.
pub async fn mark_dead_makes_a_message_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    fixture.observe_new(observation(key("2"))).await?;
    for id in ["1", "2"] {
        let summary = fixture.change(key(id), Action::MarkDead { error: error("by hand") }).await?;
        let dead = fixture.read(key(id)).await?;
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Failed)));
        assert_eq!((dead.finished_at, &dead.last_error), (Some(fixture.now().await), &error("by hand")));
        let again = fixture.order(key(id), Action::MarkDead { error: error("again") }).await?;
        assert_eq!(again, Operated::Unchanged(summary));
        assert_eq!(fixture.read(key(id)).await?, dead);
    }
    fixture.expect_claimable(&[]).await
}

/// No order except an erase changes a Done message.
/// Holds: RULE-04.
pub async fn a_done_message_ignores_orders(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    let before = fixture.read(done.uid).await?;
    fixture.advance(seconds(5)).await;
    for action in [Action::MarkProcessing, PROCESSED, DEAD, REDRIVE, Action::Cancel] {
        assert_eq!(fixture.order(done.uid, action).await?, Operated::Unchanged(before.summary()));
    }
    assert_eq!(fixture.read(done.uid).await?, before);
    Ok(())
}

/// An order that conflicts with a lease ends it: its worker's settlement is lost, and no attempt is spent.
/// Holds: RULE-04, RULE-07.
pub async fn an_order_ends_a_lease_without_an_attempt(fixture: Fixture) -> TestResult {
    for action in [PROCESSED, DEAD, Action::Cancel, Action::MarkProcessing] {
        let id = format!("{action:?}");
        fixture.accept(&message(&id)).await?;
        let delivery = fixture.claim_one().await?;
        fixture.change(key(&id), action).await?;
        let before = fixture.read(delivery.uid).await?;
        assert_eq!((before.lease(), before.attempts), (None, 0));
        assert_eq!(before.grant.as_ref().and_then(|grant| grant.end), Some(GrantEnd::Lost));
        assert_eq!(fixture.settle(delivery.ack()).await?, Settled::LeaseLost);
        assert_eq!(fixture.read(delivery.uid).await?, before);
    }
    Ok(())
}

/// A leased message that is marked Processing is ready at once; a waiting one is unchanged.
/// Holds: RULE-04.
pub async fn mark_processing_makes_a_leased_message_ready(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    fixture.claim_one().await?;
    fixture.change(key("1"), Action::MarkProcessing).await?;
    let next = fixture.claim_one().await?;
    assert_eq!((next.attempts, next.deliveries), (0, 2));
    fixture.settle(next.abandon(span(LEASE), None)).await?;
    let before = fixture.read(next.uid).await?;
    let order = fixture.order(key("1"), Action::MarkProcessing).await?;
    assert_eq!(order, Operated::Unchanged(before.summary()));
    assert_eq!(fixture.read(next.uid).await?, before);
    Ok(())
}

/// A Dead message that is marked Processing keeps its number and its attempts.
/// Holds: RULE-04.
pub async fn mark_processing_revives_a_dead_message(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(TICK), error("boom"))).await?;
    fixture.change(key("1"), Action::MarkProcessing).await?;
    let revived = fixture.read(key("1")).await?;
    assert_eq!((revived.state, revived.dead, revived.finished_at), (MessageState::Processing, None, None));
    assert_eq!((revived.number, revived.attempts), (delivery.number, 1));
    let next = fixture.claim_one().await?;
    let settled = fixture.settle(next.abandon(span(TICK), None)).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
    Ok(())
}

/// A redriven message counts its attempts from zero, and keeps its deliveries, its error and its uid.
/// Holds: MBX-I-4, RULE-11, RULE-23.
pub async fn redrive_resets_the_attempts(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    let dead = fixture.claim_one().await?;
    fixture.settle(dead.abandon(span(TICK), error("boom"))).await?;
    assert_eq!(fixture.change(key("1"), REDRIVE).await?.state, MessageState::Processing);
    let next = fixture.claim_one().await?;
    assert_eq!((next.uid, next.attempts, next.deliveries), (dead.uid, 0, 2));
    assert_eq!(next.last_error, error("boom"));
    Ok(())
}

/// A message counts its redrives, whatever happens in between; no other order counts as one.
/// Holds: RULE-11.
pub async fn redrives_are_counted(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1")).await?;
    for redrives in 0..3 {
        assert_eq!(fixture.read(summary.uid).await?.redrives, redrives);
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.fail(error("boom"))).await?;
        assert_eq!(fixture.read(summary.uid).await?.redrives, redrives, "a failure is no redrive");
        fixture.change(summary.uid, REDRIVE).await?;
        assert!(matches!(fixture.order(summary.uid, REDRIVE).await?, Operated::Unchanged(_)));
    }
    fixture.change(summary.uid, Action::Cancel).await?;
    fixture.change(summary.uid, Action::MarkProcessing).await?;
    assert_eq!(fixture.read(summary.uid).await?.redrives, 3, "a mark is no redrive");
    fixture.change(summary.uid, Action::Cancel).await?;
    fixture
        .change(
            summary.uid,
            Action::Redrive { attempts: AttemptCount::Keep, times_max: None, lane_max: None },
        )
        .await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.ack()).await?;
    let done = fixture.read(summary.uid).await?;
    assert_eq!((done.state, done.redrives), (MessageState::Done, 4));
    Ok(())
}

/// A redrive with a limit does not change a message that was redriven that often.
/// Holds: RULE-11.
pub async fn a_redrive_may_have_a_limit(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1")).await?;
    let limited =
        |times| Action::Redrive { attempts: AttemptCount::Reset, times_max: Some(times), lane_max: None };
    for redrives in 0..2 {
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.fail(error("boom"))).await?;
        let before = fixture.read(summary.uid).await?;
        assert_eq!(
            fixture.order(summary.uid, limited(redrives)).await?,
            Operated::Unchanged(before.summary())
        );
        assert_eq!(fixture.read(summary.uid).await?, before);
        fixture.change(summary.uid, limited(redrives + 1)).await?;
    }
    assert_eq!(fixture.read(summary.uid).await?.redrives, 2);
    Ok(())
}

/// A redrive with a lane limit revives no more messages than fit, counting those before it in the call: the others stay
/// Dead and are `Saturated`. Each lane has its own limit.
/// Holds: RULE-11, MBX-I-5.
pub async fn a_redrive_may_have_a_lane_limit(fixture: Fixture) -> TestResult {
    let names = ["1", "2", "3", "4"].map(|name| mail(name).topic("full"));
    let others = ["5", "6"].map(|name| mail(name).topic("empty"));
    for draft in names.iter().chain(&others) {
        let summary = fixture.accept(draft).await?;
        fixture.change(summary.uid, Action::Cancel).await?;
    }
    let alive = fixture.accept(&mail("alive").topic("full")).await?;
    let bounded = |target: MessageRef| {
        let (attempts, times_max, lane_max) = (AttemptCount::Reset, None, NonZeroU32::new(3));
        Order { target, action: Action::Redrive { attempts, times_max, lane_max } }
    };
    let by_key = |name: &str| MessageRef::Key(key_in(Namespace::Mailbox, "orders", name));
    let orders: Vec<_> = ["1", "5", "2", "3", "4", "6", "1"].map(|name| bounded(by_key(name))).into();
    let operated = fixture.store.operate(&orders).await?;
    let outcomes: Vec<_> = operated
        .iter()
        .map(|operated| match operated {
            Operated::Changed(_) => "changed",
            Operated::Unchanged(_) => "unchanged",
            Operated::Saturated { bound, .. } if bound.name == Bound::LANE_MESSAGES && bound.limit == 3 => {
                "full"
            }
            _ => "?",
        })
        .collect();
    // One message is in the lane already; a message that is not Dead is not redriven, however full its lane is.
    assert_eq!(outcomes, ["changed", "changed", "changed", "full", "full", "changed", "unchanged"]);
    // Within one call, a message that leaves the lane makes space for those after it.
    let cancel = Order { target: alive.uid.into(), action: Action::Cancel };
    let operated = fixture.store.operate(&[cancel, bounded(by_key("3")), bounded(by_key("4"))]).await?;
    assert!(
        matches!(operated[..], [Operated::Changed(_), Operated::Changed(_), Operated::Saturated { .. }]),
        "{operated:?}"
    );
    let delivery =
        fixture.claim_one_by(&Claim { namespace: Namespace::Mailbox, ..claim_of(&["full"], 1) }).await?;
    fixture.settle(delivery.ack()).await?;
    let operated = fixture.store.operate(&[bounded(by_key("4"))]).await?;
    assert!(matches!(operated[..], [Operated::Changed(_)]), "there is space again: {operated:?}");
    Ok(())
}

/// A redriven message continues counting its attempts if asked to.
/// Holds: RULE-11.
pub async fn redrive_keeps_the_attempts_if_asked(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    let dead = fixture.claim_one().await?;
    fixture.settle(dead.abandon(span(TICK), None)).await?;
    fixture
        .change(dead.uid, Action::Redrive { attempts: AttemptCount::Keep, times_max: None, lane_max: None })
        .await?;
    assert_eq!(fixture.claim_one().await?.attempts, 1);
    Ok(())
}

/// A redriven message has neither due time nor expiry: it is ready at once, and does not expire any more.
/// Holds: RULE-11, RULE-12.
pub async fn redrive_forgets_due_time_and_expiry(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    fixture.accept(&message("1").expires(now.after(seconds(10))).due(now.after(seconds(99)))).await?;
    fixture.advance(seconds(10)).await;
    fixture.change(key("1"), REDRIVE).await?;
    let delivery = fixture.claim_one().await?;
    assert_eq!((delivery.content.due, delivery.content.expires), (None, None));
    Ok(())
}

/// Only a Dead message can be redriven.
/// Holds: RULE-11.
pub async fn only_a_dead_message_is_redriven(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("2"))).await?;
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    for id in ["1", "2"] {
        let before = fixture.read(key(id)).await?;
        assert_eq!(fixture.order(key(id), REDRIVE).await?, Operated::Unchanged(before.summary()));
        assert_eq!(fixture.read(key(id)).await?, before);
    }
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A redrive does not depend on the key: a Dead message whose key another message holds is redriven next to it.
/// Holds: RULE-02, RULE-11.
pub async fn a_redrive_does_not_depend_on_the_key(fixture: Fixture) -> TestResult {
    let older = fixture.accept(&mail("1")).await?;
    fixture.change(older.uid, Action::Cancel).await?;
    fixture.advance(seconds(300)).await;
    let newer = fixture.accept(&mail("1")).await?;
    fixture.change(older.uid, REDRIVE).await?;
    let deliveries = fixture.claim(&claim_in(Namespace::Mailbox, 10)).await?;
    assert_eq!(deliveries.iter().map(|delivery| delivery.uid).collect::<Vec<_>>(), [newer.uid, older.uid]);
    assert_eq!(fixture.read(mail("1").key).await?.uid, newer.uid);
    Ok(())
}

/// A cancelled message is Dead with that reason; a message that is Dead already keeps its reason.
/// Holds: RULE-07.
pub async fn cancel_makes_a_message_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    fixture.observe_new(observation(key("2"))).await?;
    for id in ["1", "2"] {
        let summary = fixture.change(key(id), Action::Cancel).await?;
        let dead = fixture.read(key(id)).await?;
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Cancelled)));
        assert_eq!(dead.finished_at, Some(fixture.now().await));
        assert_eq!(fixture.order(key(id), Action::Cancel).await?, Operated::Unchanged(summary));
    }
    fixture.expect_claimable(&[]).await
}
