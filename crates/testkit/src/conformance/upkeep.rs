//! Upkeep: what it forgets, what it keeps, and that it does so in bounded pieces.

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{
    Action, Budget, DeadReason, Deaths, Hold, Keep, Namespace, Policy, Query, Settled, Sighting, State,
    StoreExt, Upkept,
};

use super::kit::{Draft, LEASE, TICK, days, key, key_in, mail, message, seconds, sighting, topic};
use crate::fixture::{Fixture, TestResult};

const BUDGET: Budget = Budget::new(1_000);

/// Where nothing is old, upkeep does nothing.
/// Holds: IBX-098.
/// Replays I-T56.
pub async fn upkeep_of_an_empty_store_does_nothing(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.store.upkeep(BUDGET).await?, Upkept::default());
    Ok(())
}

/// A Done message is forgotten when its key is no longer held, not a millisecond earlier.
/// Holds: IBX-098, IBX-100, RULE-03.
/// Replays I-T55, I-T56.
pub async fn a_done_message_is_kept_while_its_key_is_held(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    fixture.pass_nearly(days(30)).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.read(done.uid).await?.state, State::Done);
    fixture.pass(TICK).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.find(done.uid).await?, None);
    assert_eq!(fixture.list(&Query::all(Namespace::Inbox)).await?, []);
    Ok(())
}

/// A Done message is kept for ten minutes, though its key is free earlier.
/// Holds: RULE-06.
pub async fn a_done_message_is_kept_for_ten_minutes(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1").hold(seconds(0), Some(seconds(1)))).await?;
    fixture.pass_nearly(REPEAT_WINDOW).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.read(done.uid).await?.state, State::Done);
    fixture.pass(TICK).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.find(done.uid).await?, None);
    Ok(())
}

/// A Done message whose key another one has taken is forgotten after ten minutes, and leaves the key alone.
/// Holds: RULE-02, RULE-06.
pub async fn a_done_message_without_its_key_is_forgotten(fixture: Fixture) -> TestResult {
    let older = fixture.finish(&mail("1")).await?;
    fixture.pass(seconds(300)).await;
    let newer = fixture.accept(&mail("1").hold(days(9), None)).await?;
    fixture.pass(seconds(300)).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.find(older.uid).await?, None);
    assert_eq!(fixture.read(mail("1").key).await?.uid, newer.uid);
    Ok(())
}

/// Each Done message is kept for as long as its own policy says.
/// Holds: IBX-098, IBX-100.
/// Replays I-T57.
pub async fn retention_goes_by_age(fixture: Fixture) -> TestResult {
    for (age, then) in [(30, 15), (15, 7), (7, 3), (3, 1), (1, 0)] {
        fixture.finish(&message(&age.to_string()).hold(seconds(0), Some(days(10)))).await?;
        fixture.pass(days(age - then)).await;
    }
    fixture.upkeep(&BUDGET).await?;
    let left = fixture.list(&Query::all(Namespace::Inbox)).await?;
    let left: Vec<_> = left.iter().map(|message| message.key.id.as_str()).collect();
    assert_eq!(left, ["7", "3", "1"]);
    Ok(())
}

/// Upkeep never removes what is Seen, Processing or Dead, unless it is told to.
/// Holds: IBX-099, RULE-20.
/// Replays I-T55.
pub async fn upkeep_keeps_what_is_not_done(fixture: Fixture) -> TestResult {
    fixture.sight(sighting(key("seen"))).await?;
    fixture
        .accept_all(&[message("waiting"), message("dead"), message("short").hold(seconds(1), None)])
        .await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    fixture.pass(days(400)).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.list(&Query::all(Namespace::Inbox)).await?.len(), 4);
    Ok(())
}

/// Dead messages are forgotten so long after their death as the retention says.
/// Holds: MBX-P-9, RULE-20.
pub async fn dead_messages_are_forgotten_by_their_retention(fixture: Fixture) -> TestResult {
    let budget = Budget { dead_keep: Some(days(14)), ..BUDGET };
    let receipt = fixture.accept(&message("1").hold(seconds(0), Some(days(10)))).await?;
    fixture.pass(days(9)).await;
    fixture.change(key("1"), Action::Cancel).await?;
    fixture.pass_nearly(days(14)).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.read(receipt.uid).await?.state, State::Dead);
    fixture.pass(TICK).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.find(receipt.uid).await?, None);
    fixture.accept(&message("1")).await?;
    Ok(())
}

/// Upkeep tells once which messages became Dead since it ran last, whichever call made them so.
/// Holds: MBX-I-10, MBX-C-4.
pub async fn upkeep_tells_what_died(fixture: Fixture) -> TestResult {
    let letter = fixture.accept(&mail("1")).await?;
    let expires = fixture.now().await.after(seconds(5));
    fixture.accept_all(&[message("2"), message("3").expires(expires)]).await?;
    fixture.change(letter.uid, Action::Cancel).await?;
    let failed = fixture.take().await?.fail(None);
    fixture.settle(failed).await?;
    fixture.pass(seconds(5)).await;
    let mut died = fixture.store.upkeep(BUDGET).await?.died;
    died.sort_by_key(|deaths| deaths.reason);
    let deaths = |namespace, reason| Deaths { namespace, topic: Some(topic("orders")), reason, count: 1 };
    let expected = [
        deaths(Namespace::Inbox, DeadReason::Failed),
        deaths(Namespace::Inbox, DeadReason::Expired),
        deaths(Namespace::Mailbox, DeadReason::Cancelled),
    ];
    assert_eq!(died, expected);
    assert_eq!(fixture.store.upkeep(BUDGET).await?.died, []);
    Ok(())
}

/// Seen keys are forgotten so long after they came first as the retention says, but not under a lease.
/// Holds: RULE-20.
pub async fn seen_keys_are_forgotten_by_their_retention(fixture: Fixture) -> TestResult {
    let budget = Budget { seen_keep: Some(days(5)), ..BUDGET };
    let leased = key_in(Namespace::Ledger, "bus", "1");
    let hold = Hold { window: seconds(0), keep: Keep::After(days(1)) };
    let receipt = fixture.sight(Sighting { hold, ..sighting(key("1")) }).await?;
    fixture.sight(Sighting { hold, ..sighting(leased.clone()) }).await?;
    fixture.pass_nearly(days(5)).await;
    fixture.begin(&leased).await?;
    fixture.observe(sighting(key("1"))).await?;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.read(key("1")).await?.uid, receipt.uid);
    fixture.pass(TICK).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.find(receipt.uid).await?, None);
    assert_eq!(fixture.read(leased.clone()).await?.state, State::Seen);
    fixture.pass(LEASE).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.find(leased).await?, None);
    Ok(())
}

/// However short the retention, what a receipt promised is kept: the key of a Dead message and of a sighted one.
/// Holds: RULE-03, RULE-20.
pub async fn retention_does_not_break_a_receipt(fixture: Fixture) -> TestResult {
    let budget = Budget { seen_keep: Some(seconds(1)), dead_keep: Some(seconds(1)), ..BUDGET };
    let dead = fixture.accept(&message("dead")).await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    let seen = fixture.sight(sighting(key("seen"))).await?;
    fixture.pass_nearly(days(30)).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.read(key("dead")).await?.uid, dead.uid);
    assert_eq!(fixture.read(key("seen")).await?.uid, seen.uid);
    fixture.pass(TICK).await;
    fixture.upkeep(&budget).await?;
    assert_eq!((fixture.find(dead.uid).await?, fixture.find(seen.uid).await?), (None, None));
    Ok(())
}

/// However short the retention, a settlement that made a message Dead gets the same answer for ten minutes.
/// Holds: RULE-06, RULE-20.
pub async fn retention_does_not_forget_a_settlement(fixture: Fixture) -> TestResult {
    let budget = Budget { dead_keep: Some(seconds(1)), ..BUDGET };
    fixture.accept(&message("1").hold(seconds(0), None)).await?;
    let failed = fixture.take().await?.fail(None);
    fixture.settle(failed.clone()).await?;
    fixture.pass_nearly(seconds(600)).await;
    fixture.upkeep(&budget).await?;
    let again = fixture.store.settle(std::slice::from_ref(&failed)).await?;
    assert_eq!(again, [Settled::Dead { reason: DeadReason::Failed }]);
    fixture.pass(TICK).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.store.settle(&[failed]).await?, [Settled::LeaseLost]);
    Ok(())
}

/// One call of upkeep forgets no more than its budget, and says that there is more to do.
/// Holds: IBX-068, IBX-101.
pub async fn upkeep_works_in_bounded_pieces(fixture: Fixture) -> TestResult {
    for id in ["1", "2", "3", "4", "5"] {
        fixture.finish(&message(id)).await?;
    }
    fixture.pass(days(30)).await;
    let budget = Budget::new(2);
    let (upkept, now) = (fixture.store.upkeep(budget.clone()).await?, fixture.now().await);
    assert!(upkept.next_due.is_some_and(|due| due <= now), "{upkept:?}");
    let left = fixture.list(&Query::all(Namespace::Inbox)).await?.len();
    assert!(left >= 3, "{left} messages are left after a budget of 2");
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.list(&Query::all(Namespace::Inbox)).await?, []);
    Ok(())
}

/// Upkeep changes nothing about Done and Dead messages that are to be kept, and ends no lease that is current.
/// Holds: IBX-071.
pub async fn upkeep_leaves_kept_messages_alone(fixture: Fixture) -> TestResult {
    fixture.finish(&message("done")).await?;
    fixture.accept_all(&[message("dead"), message("leased")]).await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    let delivery = fixture.take().await?;
    let before = fixture.list(&Query::all(Namespace::Inbox)).await?;
    fixture.pass_nearly(LEASE).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.list(&Query::all(Namespace::Inbox)).await?, before);
    assert_eq!(fixture.read(delivery.uid).await?.lease(), Some(&delivery.lease));
    Ok(())
}

/// Upkeep knows when the next lease ends, and ends it then.
/// Holds: IBX-068, IBX-069, IBX-070, IBX-072, MBX-C-3.
pub async fn upkeep_ends_lapsed_leases(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take().await?;
    let next_due = fixture.store.upkeep(BUDGET).await?.next_due;
    assert!(next_due.is_some_and(|due| due <= delivery.lease.until), "{next_due:?}");
    fixture.pass(LEASE).await;
    fixture.upkeep(&BUDGET).await?;
    let reaped = fixture.read(delivery.uid).await?;
    assert_eq!((reaped.lease(), reaped.attempts), (None, 1));
    fixture.expect_claimable(&["1"]).await
}

/// A forgotten key is a new one.
/// Holds: IBX-098, RULE-02.
pub async fn a_forgotten_key_is_new(fixture: Fixture) -> TestResult {
    let hold = Policy::LEDGER.hold;
    let ledger = key_in(Namespace::Ledger, "bus", "1");
    let done = fixture.change(ledger.clone(), Action::MarkProcessed { hold }).await?;
    fixture.pass(days(7)).await;
    fixture.upkeep(&BUDGET).await?;
    assert_eq!(fixture.find(done.uid).await?, None);
    assert_ne!(fixture.sight(sighting(ledger)).await?.uid, done.uid);
    Ok(())
}
