//! Maintenance: what it forgets, what it keeps, and that it works in bounded batches.

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{
    Action, Budget, DeadReason, Deaths, Hold, Keep, MaintenanceReport, MessageQuery, MessageState, Namespace,
    Observation, Policy, Settled, StoreExt,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, LEASE, TICK, days, key, key_in, mail, message, observation, seconds, topic};

const BUDGET: Budget = Budget::new(1_000);

/// If nothing is due, maintenance does nothing.
/// Holds: IBX-098.
/// Replays I-T56.
pub async fn maintenance_of_an_empty_store_does_nothing(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.store.maintain(BUDGET).await?, MaintenanceReport::default());
    Ok(())
}

/// A Done message is forgotten when its key is no longer held, not a millisecond earlier.
/// Holds: IBX-098, IBX-100, RULE-03.
/// Replays I-T55, I-T56.
pub async fn a_done_message_is_kept_while_its_key_is_held(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    fixture.advance_almost(days(30)).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.read(done.uid).await?.state, MessageState::Done);
    fixture.advance(TICK).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.find(done.uid).await?, None);
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?, []);
    Ok(())
}

/// A Done message is kept for ten minutes, even if its key is free earlier.
/// Holds: RULE-06.
pub async fn a_done_message_is_kept_for_ten_minutes(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1").hold(seconds(0), Some(seconds(1)))).await?;
    fixture.advance_almost(REPEAT_WINDOW).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.read(done.uid).await?.state, MessageState::Done);
    fixture.advance(TICK).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.find(done.uid).await?, None);
    Ok(())
}

/// A Done message whose key another message holds is forgotten after ten minutes, and the key is not affected.
/// Holds: RULE-02, RULE-06.
pub async fn a_done_message_without_its_key_is_forgotten(fixture: Fixture) -> TestResult {
    let older = fixture.finish(&mail("1")).await?;
    fixture.advance(seconds(300)).await;
    let newer = fixture.accept(&mail("1").hold(days(9), None)).await?;
    fixture.advance(seconds(300)).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.find(older.uid).await?, None);
    assert_eq!(fixture.read(mail("1").key).await?.uid, newer.uid);
    Ok(())
}

/// Each Done message is kept for as long as its own policy requires.
/// Holds: IBX-098, IBX-100.
/// Replays I-T57.
pub async fn retention_depends_on_age(fixture: Fixture) -> TestResult {
    for (age, then) in [(30, 15), (15, 7), (7, 3), (3, 1), (1, 0)] {
        fixture.finish(&message(&age.to_string()).hold(seconds(0), Some(days(10)))).await?;
        fixture.advance(days(age - then)).await;
    }
    fixture.maintain(&BUDGET).await?;
    let left = fixture.list(&MessageQuery::all(Namespace::Inbox)).await?;
    let left: Vec<_> = left.iter().map(|message| message.key.id.as_str()).collect();
    assert_eq!(left, ["7", "3", "1"]);
    Ok(())
}

/// Maintenance never removes Seen, Processing or Dead messages, unless it is given a retention.
/// Holds: IBX-099, RULE-20.
/// Replays I-T55.
pub async fn maintenance_keeps_messages_that_are_not_done(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("seen"))).await?;
    fixture
        .accept_all(&[message("waiting"), message("dead"), message("short").hold(seconds(1), None)])
        .await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    fixture.advance(days(400)).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?.len(), 4);
    Ok(())
}

/// Dead messages are forgotten when their retention after their death has passed.
/// Holds: MBX-P-9, RULE-20.
pub async fn dead_messages_are_forgotten_by_their_retention(fixture: Fixture) -> TestResult {
    let budget = Budget { dead_keep: Some(days(14)), ..BUDGET };
    let summary = fixture.accept(&message("1").hold(seconds(0), Some(days(10)))).await?;
    fixture.advance(days(9)).await;
    fixture.change(key("1"), Action::Cancel).await?;
    fixture.advance_almost(days(14)).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.read(summary.uid).await?.state, MessageState::Dead);
    fixture.advance(TICK).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.find(summary.uid).await?, None);
    fixture.accept(&message("1")).await?;
    Ok(())
}

/// Maintenance reports once which messages became Dead since the last call, whichever call caused it.
/// Holds: MBX-I-10, MBX-C-4.
pub async fn maintenance_reports_deaths(fixture: Fixture) -> TestResult {
    let letter = fixture.accept(&mail("1")).await?;
    let expires = fixture.now().await.after(seconds(5));
    fixture.accept_all(&[message("2"), message("3").expires(expires)]).await?;
    fixture.change(letter.uid, Action::Cancel).await?;
    let failed = fixture.claim_one().await?.fail(None);
    fixture.settle(failed).await?;
    fixture.advance(seconds(5)).await;
    let mut died = fixture.store.maintain(BUDGET).await?.died;
    died.sort_by_key(|deaths| deaths.reason);
    let deaths = |namespace, reason| Deaths { namespace, topic: Some(topic("orders")), reason, count: 1 };
    let expected = [
        deaths(Namespace::Inbox, DeadReason::Failed),
        deaths(Namespace::Inbox, DeadReason::Expired),
        deaths(Namespace::Mailbox, DeadReason::Cancelled),
    ];
    assert_eq!(died, expected);
    assert_eq!(fixture.store.maintain(BUDGET).await?.died, []);
    Ok(())
}

/// Seen keys are forgotten when their retention since they were first seen has passed, but not while they are leased.
/// Holds: RULE-20.
pub async fn seen_keys_are_forgotten_by_their_retention(fixture: Fixture) -> TestResult {
    let budget = Budget { seen_keep: Some(days(5)), ..BUDGET };
    let leased = key_in(Namespace::Ledger, "bus", "1");
    let hold = Hold { window: seconds(0), keep: Keep::After(days(1)) };
    let summary = fixture.observe_new(Observation { hold, ..observation(key("1")) }).await?;
    fixture.observe_new(Observation { hold, ..observation(leased.clone()) }).await?;
    fixture.advance_almost(days(5)).await;
    fixture.begin(&leased).await?;
    fixture.observe(observation(key("1"))).await?;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.read(key("1")).await?.uid, summary.uid);
    fixture.advance(TICK).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.find(summary.uid).await?, None);
    assert_eq!(fixture.read(leased.clone()).await?.state, MessageState::Seen);
    fixture.advance(LEASE).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.find(leased).await?, None);
    Ok(())
}

/// However short the retention, the promised dedup window is respected: for a Dead message and for an observed key.
/// Holds: RULE-03, RULE-20.
pub async fn retention_respects_the_dedup_window(fixture: Fixture) -> TestResult {
    let budget = Budget { seen_keep: Some(seconds(1)), dead_keep: Some(seconds(1)), ..BUDGET };
    let dead = fixture.accept(&message("dead")).await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    let seen = fixture.observe_new(observation(key("seen"))).await?;
    fixture.advance_almost(days(30)).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.read(key("dead")).await?.uid, dead.uid);
    assert_eq!(fixture.read(key("seen")).await?.uid, seen.uid);
    fixture.advance(TICK).await;
    fixture.maintain(&budget).await?;
    assert_eq!((fixture.find(dead.uid).await?, fixture.find(seen.uid).await?), (None, None));
    Ok(())
}

/// However short the retention, a settlement that made a message Dead has the same outcome on repeat for ten minutes.
/// Holds: RULE-06, RULE-20.
pub async fn retention_does_not_forget_a_settlement(fixture: Fixture) -> TestResult {
    let budget = Budget { dead_keep: Some(seconds(1)), ..BUDGET };
    fixture.accept(&message("1").hold(seconds(0), None)).await?;
    let failed = fixture.claim_one().await?.fail(None);
    fixture.settle(failed.clone()).await?;
    fixture.advance_almost(seconds(600)).await;
    fixture.maintain(&budget).await?;
    let again = fixture.store.settle(std::slice::from_ref(&failed)).await?;
    assert_eq!(again, [Settled::Dead { reason: DeadReason::Failed }]);
    fixture.advance(TICK).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.store.settle(&[failed]).await?, [Settled::LeaseLost]);
    Ok(())
}

/// One maintenance call forgets no more than its budget, and reports that more is due.
/// Holds: IBX-068, IBX-101.
pub async fn maintenance_works_in_bounded_batches(fixture: Fixture) -> TestResult {
    for id in ["1", "2", "3", "4", "5"] {
        fixture.finish(&message(id)).await?;
    }
    fixture.advance(days(30)).await;
    let budget = Budget::new(2);
    let (report, now) = (fixture.store.maintain(budget.clone()).await?, fixture.now().await);
    assert!(report.next_due.is_some_and(|due| due <= now), "{report:?}");
    let left = fixture.list(&MessageQuery::all(Namespace::Inbox)).await?.len();
    assert!(left >= 3, "{left} messages are left after a budget of 2");
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?, []);
    Ok(())
}

/// Maintenance does not change Done and Dead messages that are retained, and ends no current lease.
/// Holds: IBX-071.
pub async fn maintenance_does_not_change_retained_messages(fixture: Fixture) -> TestResult {
    fixture.finish(&message("done")).await?;
    fixture.accept_all(&[message("dead"), message("leased")]).await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    let delivery = fixture.claim_one().await?;
    let before = fixture.list(&MessageQuery::all(Namespace::Inbox)).await?;
    fixture.advance_almost(LEASE).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?, before);
    assert_eq!(fixture.read(delivery.uid).await?.lease(), Some(&delivery.lease));
    Ok(())
}

/// Maintenance reports when the next lease ends, and ends it then.
/// Holds: IBX-068, IBX-069, IBX-070, IBX-072, MBX-C-3.
pub async fn maintenance_ends_lapsed_leases(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    let next_due = fixture.store.maintain(BUDGET).await?.next_due;
    assert!(next_due.is_some_and(|due| due <= delivery.lease.until), "{next_due:?}");
    fixture.advance(LEASE).await;
    fixture.maintain(&BUDGET).await?;
    let reaped = fixture.read(delivery.uid).await?;
    assert_eq!((reaped.lease(), reaped.attempts), (None, 1));
    fixture.expect_claimable(&["1"]).await
}

/// A forgotten key is new.
/// Holds: IBX-098, RULE-02.
pub async fn a_forgotten_key_is_new(fixture: Fixture) -> TestResult {
    let hold = Policy::LEDGER.hold;
    let ledger = key_in(Namespace::Ledger, "bus", "1");
    let done = fixture.change(ledger.clone(), Action::MarkProcessed { hold }).await?;
    fixture.advance(days(7)).await;
    fixture.maintain(&BUDGET).await?;
    assert_eq!(fixture.find(done.uid).await?, None);
    assert_ne!(fixture.observe_new(observation(ledger)).await?.uid, done.uid);
    Ok(())
}
