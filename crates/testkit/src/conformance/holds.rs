//! How long a key is held, to the millisecond, and what happens when the hold lapses.

use std::error::Error;
use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Begun, Budget, Claim, Hold, Keep, MessageState, Namespace, Observed, Operated,
    PageSize, Policy, Settled, StoreExt,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, TICK, claim_in, command, days, key, key_in, mail, message, observation, owner, seconds, span,
};

/// A key is held while its message is unfinished or Dead, however long that is.
/// Holds: RULE-03.
pub async fn an_unfinished_or_dead_message_holds_its_key(fixture: Fixture) -> TestResult {
    let processing = fixture.accept(&message("1")).await?;
    fixture.accept(&message("2")).await?;
    let dead = fixture.change(key("2"), Action::Cancel).await?;
    let seen = fixture.observe_new(observation(key("3"))).await?;
    fixture.advance(days(400)).await;
    for (id, summary) in [("1", &processing), ("2", &dead)] {
        let again = fixture.accept_again(&message(id)).await?;
        assert_eq!(again, Accepted::Duplicate { summary: summary.clone(), diverged: false });
    }
    let again = fixture.observe(observation(key("3"))).await?;
    assert_eq!(again, Observed::Again { summary: seen, diverged: false });
    Ok(())
}

/// Inbox and commands hold the key of a Done message for exactly 30 days, to the millisecond.
/// Holds: IBX-100, RULE-03.
pub async fn a_done_message_holds_its_key_for_30_days(fixture: Fixture) -> TestResult {
    for sent in [message("1"), command("acme", "1")] {
        fixture.accept(&sent).await?;
        fixture.advance(days(3)).await;
        let delivery = fixture.claim_one_by(&claim_in(sent.key.namespace, 1)).await?;
        fixture.settle(delivery.ack()).await?;
        fixture.advance_almost(days(30)).await;
        let again = fixture.accept_again(&sent).await?;
        assert!(matches!(again, Accepted::Duplicate { summary, .. } if summary.uid == delivery.uid));
        fixture.advance(TICK).await;
        assert_ne!(fixture.accept(&sent).await?.uid, delivery.uid);
    }
    Ok(())
}

/// A message whose key is held for the longest time that can be given is acknowledged like any other, also together
/// with others.
/// Holds: RULE-03.
pub async fn a_message_whose_key_is_held_for_ever_is_acknowledged(fixture: Fixture) -> TestResult {
    let longest = Duration::MAX;
    let sent = [message("1").hold(longest, None), message("2").hold(seconds(1), Some(longest)), message("3")];
    for sent in &sent {
        fixture.accept(sent).await?;
    }
    let deliveries = fixture.claim(&claim_in(Namespace::Inbox, 3)).await?;
    let acks: Vec<_> = deliveries.iter().map(oncebox_core::Delivery::ack).collect();
    assert_eq!(fixture.store.settle(&acks).await?, [Settled::Done; 3]);
    fixture.advance(days(3_000)).await;
    fixture.maintain(&Budget::new(100)).await?;
    for held in &sent[..2] {
        assert!(matches!(fixture.accept_again(held).await?, Accepted::Duplicate { .. }), "{held:?}");
    }
    Ok(())
}

/// A key is held for the window from its acceptance or for the time after Done, whichever ends later.
/// Holds: RULE-03.
pub async fn the_later_end_of_window_and_keep_counts(fixture: Fixture) -> TestResult {
    for (id, window, keep) in [("1", 100, 10), ("2", 10, 70)] {
        let sent = message(id).hold(seconds(window), Some(seconds(keep)));
        fixture.accept(&sent).await?;
        fixture.advance(seconds(30)).await;
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.ack()).await?;
        fixture.advance_almost(seconds(70)).await;
        assert!(matches!(fixture.accept_again(&sent).await?, Accepted::Duplicate { .. }));
        fixture.advance(TICK).await;
        fixture.accept(&sent).await?;
        fixture.change(key(id), Action::Cancel).await?;
    }
    Ok(())
}

/// The ledger holds a key for 7 days from when it was first processed; marking it again does not extend that.
/// Holds: LDG-06, LDG-11, RULE-03.
pub async fn the_ledger_holds_a_key_for_7_days(fixture: Fixture) -> TestResult {
    let key = key_in(Namespace::Ledger, "bus", "1");
    let mark = Action::MarkProcessed { hold: Policy::LEDGER.hold };
    let done = fixture.change(key.clone(), mark.clone()).await?;
    assert_eq!(done.dedup_until, fixture.now().await.after(days(7)));
    fixture.advance(days(3)).await;
    assert_eq!(fixture.order(key.clone(), mark).await?, Operated::Unchanged(done.clone()));
    fixture.advance_almost(days(4)).await;
    assert_eq!(fixture.try_begin(&key, owner(1)).await?, Begun::Processed(done.clone()));
    fixture.advance(TICK).await;
    let (uid, _) = fixture.begin(&key).await?;
    assert_ne!(uid, done.uid);
    Ok(())
}

/// A ledger key can be held for 30 days, if the caller that records it asks for that.
/// Holds: LDG-11, RULE-03.
pub async fn the_ledger_can_hold_a_key_for_30_days(fixture: Fixture) -> TestResult {
    let key = key_in(Namespace::Ledger, "bus", "1");
    let hold = Hold { keep: Keep::After(days(30)), ..Policy::LEDGER.hold };
    fixture.change(key.clone(), Action::MarkProcessed { hold }).await?;
    fixture.advance_almost(days(30)).await;
    assert!(matches!(fixture.try_begin(&key, owner(1)).await?, Begun::Processed(_)));
    fixture.advance(TICK).await;
    fixture.begin(&key).await?;
    Ok(())
}

/// The mailbox holds a key for exactly 300 s from acceptance: then it is free, even if its message is unfinished.
/// Holds: MBX-C-2, MBX-G-8, MBX-I-13, RULE-03.
pub async fn the_mailbox_holds_a_key_for_300_seconds(fixture: Fixture) -> TestResult {
    let first = fixture.accept(&mail("1")).await?;
    assert_eq!(first.dedup_until, first.accepted_at.after(seconds(300)));
    fixture.advance_almost(seconds(300)).await;
    let again = fixture.accept_again(&mail("1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary: first.clone(), diverged: false });
    fixture.advance(TICK).await;
    let second = fixture.accept(&mail("1").payload("second")).await?;
    assert_ne!(second.uid, first.uid);
    assert_eq!(second.accepted_at, fixture.now().await);
    Ok(())
}

/// Neither observations nor duplicates nor the acknowledgement move the end of the mailbox's window.
/// Holds: MBX-I-13, RULE-03.
pub async fn duplicates_do_not_move_the_window(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&mail("1")).await?;
    let first = fixture.read(done.uid).await?.summary();
    fixture.advance(seconds(200)).await;
    let again = fixture.accept_again(&mail("1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary: first.clone(), diverged: false });
    fixture.observe(observation(mail("1").key)).await?;
    fixture.advance(seconds(100)).await;
    assert_ne!(fixture.accept(&mail("1")).await?.uid, first.uid);
    Ok(())
}

/// A message whose key was taken over stays under its uid: both messages are delivered, and settled independently.
/// Holds: RULE-02.
pub async fn a_message_stays_deliverable_without_its_key(fixture: Fixture) -> TestResult {
    fixture.accept(&mail("1")).await?;
    let long = Claim { lease: span(seconds(600)), ..claim_in(Namespace::Mailbox, 1) };
    let older = fixture.claim_one_by(&long).await?;
    fixture.advance(seconds(300)).await;
    let newer = fixture.accept(&mail("1")).await?;
    assert!(!fixture.read(older.uid).await?.keyed);
    assert_eq!(fixture.settle(older.ack()).await?, Settled::Done);
    let held = fixture.read(mail("1").key).await?;
    assert_eq!((held.uid, held.state, held.keyed), (newer.uid, MessageState::Processing, true));
    assert_eq!(fixture.claim_one_by(&claim_in(Namespace::Mailbox, 10)).await?.uid, newer.uid);
    Ok(())
}

/// Calls by key do not find a message whose hold has lapsed; calls by uid do.
/// Holds: RULE-02, RULE-03.
pub async fn a_lapsed_key_finds_nothing(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&mail("1")).await?;
    fixture.advance(seconds(300)).await;
    assert_eq!(fixture.find(mail("1").key).await?, None);
    assert_eq!(fixture.order(mail("1").key, Action::Cancel).await?, Operated::Unknown);
    let older = fixture.read(summary.uid).await?;
    assert_eq!((older.state, older.keyed), (MessageState::Processing, false));
    Ok(())
}

/// A lapsed key that is observed, begun or marked processed is new.
/// Holds: LDG-06, RULE-02, RULE-03.
pub async fn a_lapsed_key_is_free_for_any_call(fixture: Fixture) -> TestResult {
    for id in ["1", "2", "3"] {
        fixture.accept(&mail(id)).await?;
    }
    fixture.advance(seconds(300)).await;
    let observed = fixture.observe_new(observation(mail("1").key)).await?.uid;
    let (begun, _) = fixture.begin(&mail("2").key).await?;
    let marked =
        fixture.change(mail("3").key, Action::MarkProcessed { hold: Policy::LEDGER.hold }).await?.uid;
    for (id, uid) in [("1", observed), ("2", begun), ("3", marked)] {
        assert_eq!(fixture.read(mail(id).key).await?.uid, uid);
    }
    assert_eq!(fixture.claim(&claim_in(Namespace::Mailbox, 10)).await?.len(), 3);
    Ok(())
}

/// How long a key is held is decided when it is first accepted; later messages do not change it.
/// Holds: RULE-03, RULE-08.
pub async fn the_first_message_decides_the_hold(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").hold(seconds(60), None)).await?;
    fixture.accept_again(&message("1").payload("second").hold(days(9), Some(days(9)))).await?;
    fixture.observe(observation(key("1"))).await?;
    fixture.advance_almost(seconds(60)).await;
    assert!(matches!(fixture.accept_again(&message("1")).await?, Accepted::Replaced(_)));
    fixture.advance(TICK).await;
    fixture.accept(&message("1")).await?;
    Ok(())
}

/// The first content sets its own policy, but cannot shorten the dedup window that the observation promised.
/// Holds: RULE-03, RULE-04.
pub async fn the_first_content_cannot_shorten_the_hold(fixture: Fixture) -> TestResult {
    let promised = fixture.observe_new(observation(key("1"))).await?.dedup_until;
    let summary = fixture.accept(&message("1").hold(seconds(1), None)).await?;
    assert_eq!(summary.dedup_until, promised);
    fixture.advance_almost(days(30)).await;
    assert_eq!(fixture.read(key("1")).await?.uid, summary.uid);
    fixture.advance(TICK).await;
    assert_eq!(fixture.find(key("1")).await?, None);
    Ok(())
}

/// A summary shows until when duplicates are recognized at least, and exactly once the message is Done.
/// Holds: CMD-04, RULE-03.
pub async fn a_summary_shows_how_long_its_key_is_held(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1")).await?;
    assert_eq!(summary.dedup_until, summary.accepted_at.after(days(30)));
    fixture.advance(days(2)).await;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.ack()).await?;
    let done_at = fixture.now().await;
    fixture.advance(days(1)).await;
    let again = fixture.accept_again(&message("1")).await?;
    assert_eq!(again.summary().map(|summary| summary.dedup_until), Some(done_at.after(days(30))));
    Ok(())
}

/// Every stored message is found by its key, held or not: waiting, leased, Dead and Done. This does not change the
/// outcome for a sender of the key.
/// Holds: RULE-02, RULE-26.
pub async fn a_lapsed_key_still_finds_its_message(fixture: Fixture) -> TestResult {
    let sent = ["waits", "leased", "dead", "done"].map(mail);
    for mail in &sent {
        fixture.accept(mail).await?;
    }
    let long = Claim { lease: span(seconds(3_600)), ..claim_in(Namespace::Mailbox, 4) };
    let deliveries = fixture.claim(&long).await?;
    let [waits, _, dead, done] = &*deliveries else { return Err("four messages were ready".into()) };
    let settlements = [waits.release(), dead.fail(None), done.ack()];
    fixture.store.settle(&settlements).await?;
    for (passed, keyed) in [(seconds(0), true), (seconds(300), false)] {
        fixture.advance(passed).await;
        for mail in &sent {
            let found = fixture.store.with_key(&mail.key, PageSize::MAX).await?;
            let [found] = &*found else { return Err(format!("one message was sent: {found:?}").into()) };
            assert_eq!((&found.key, found.keyed), (&mail.key, keyed));
            assert_eq!(*found, fixture.read(found.uid).await?.without_payload());
            let held = fixture.store.get_one(&mail.key.clone().into()).await?;
            assert_eq!(held.map(|held| held.uid), keyed.then_some(found.uid), "the holder or nothing");
        }
    }
    for mail in &sent {
        assert_eq!(fixture.order(mail.key.clone(), Action::Cancel).await?, Operated::Unknown);
        assert!(matches!(fixture.accept_again(mail).await?, Accepted::New { .. }), "a lapsed key is free");
    }
    assert_eq!(fixture.store.with_key(&mail("never").key, PageSize::MAX).await?, []);
    Ok(())
}

/// Of several messages with one key the newest is first, up to the limit; erased messages are not found, and the others
/// are.
/// Holds: RULE-02, RULE-26.
pub async fn a_key_finds_all_its_messages(fixture: Fixture) -> TestResult {
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(fixture.accept(&mail("1")).await?.uid);
        fixture.accept(&mail("2")).await?;
        fixture.advance(seconds(300)).await;
    }
    // A redrive assigns the newest number, but the message stays the oldest by acceptance.
    fixture.change(sent[0], Action::Cancel).await?;
    fixture.change(sent[0], Action::REDRIVE).await?;
    sent.reverse();
    let find = async |limit: u32| {
        let found = fixture.store.with_key(&mail("1").key, PageSize::new(limit)?).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(found.iter().map(|found| found.uid).collect::<Vec<_>>())
    };
    assert_eq!(find(1_000).await?, sent);
    assert_eq!(find(2).await?, sent[..2]);
    assert_eq!(find(1).await?, sent[..1]);
    let newest = fixture.accept(&mail("1")).await?.uid;
    assert_eq!(find(2).await?, [newest, sent[0]]);
    let found = fixture.store.with_key(&mail("1").key, PageSize::MAX).await?;
    assert_eq!(found.iter().filter(|found| found.keyed).map(|found| found.uid).collect::<Vec<_>>(), [newest]);
    fixture.change(newest, Action::Erase).await?;
    fixture.change(sent[2], Action::Erase).await?;
    sent.remove(2);
    assert_eq!(find(1_000).await?, sent);
    Ok(())
}

/// Thousands of keys that lapsed at the same moment are all found, and so is the newest of hundreds with one key.
/// Holds: RULE-26.
pub async fn thousands_of_lapsed_keys_are_found(fixture: Fixture) -> TestResult {
    const KEYS: usize = 3_000;
    const TIMES: usize = 300;
    let keys: Vec<_> = (0..KEYS).map(|number| mail(&number.to_string())).collect();
    for some in keys.chunks(1_000) {
        fixture.store.accept(some).await?;
    }
    let again = mail("again").hold(TICK, None);
    let mut newest = Vec::new();
    for _ in 0..TIMES {
        newest.push(fixture.accept(&again).await?.uid);
        fixture.advance(TICK).await;
    }
    newest.reverse();
    fixture.advance(seconds(300)).await;
    for mail in keys.iter().step_by(97) {
        let found = fixture.store.with_key(&mail.key, PageSize::MAX).await?;
        assert!(matches!(&*found, [found] if found.key == mail.key && !found.keyed), "{found:?}");
    }
    let found = fixture.store.with_key(&again.key, PageSize::new(100)?).await?;
    assert_eq!(found.iter().map(|found| found.uid).collect::<Vec<_>>(), newest[..100]);
    Ok(())
}

/// With `UntilFinished`, a key is held until its message is finished, however long that takes and in whatever state it
/// waits; then the window from acceptance decides.
/// Holds: RULE-03.
pub async fn a_key_is_held_until_its_message_is_finished(fixture: Fixture) -> TestResult {
    let hold = Hold { window: seconds(300), keep: Keep::UntilFinished };
    let sent = |id: &str| mail(id).change(|mail| mail.policy.hold = hold);
    let long = Claim { lease: span(seconds(3_600)), ..claim_in(Namespace::Mailbox, 1) };
    let summary = fixture.accept(&sent("1")).await?;
    assert_eq!(summary.dedup_until, summary.accepted_at.after(seconds(300)), "at least until then");
    let duplicate = async || {
        let again = fixture.accept_again(&sent("1")).await?;
        assert!(
            matches!(&again, Accepted::Duplicate { summary: first, .. } if first.uid == summary.uid),
            "{again:?}"
        );
        assert_eq!(fixture.read(sent("1").key).await?.uid, summary.uid, "calls by key find it");
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    };
    fixture.advance(days(1)).await;
    duplicate().await?;
    let delivery = fixture.claim_one_by(&long).await?;
    fixture.advance(seconds(301)).await;
    duplicate().await?;
    fixture.settle(delivery.abandon(span(seconds(600)), None)).await?;
    duplicate().await?;
    fixture.advance(seconds(600)).await;
    let delivery = fixture.claim_one_by(&long).await?;
    fixture.settle(delivery.ack()).await?;
    assert!(matches!(fixture.accept_again(&sent("1")).await?, Accepted::New { .. }), "the window has ended");
    // Within the window the key is held, finished or not.
    let second = fixture.accept(&sent("2")).await?;
    fixture.change(second.uid, Action::Cancel).await?;
    fixture.advance_almost(seconds(300)).await;
    assert!(matches!(fixture.accept_again(&sent("2")).await?, Accepted::Duplicate { .. }));
    fixture.advance(TICK).await;
    assert!(matches!(fixture.accept_again(&sent("2")).await?, Accepted::New { .. }));
    Ok(())
}

/// A key that a finished message has released does not come back with a redrive: it was free, whether or not another
/// message took it.
/// Holds: RULE-02, RULE-03, RULE-11.
pub async fn a_redrive_does_not_take_a_key_back(fixture: Fixture) -> TestResult {
    let hold = Hold { window: seconds(300), keep: Keep::UntilFinished };
    let sent = mail("1").change(|mail| mail.policy.hold = hold);
    let first = fixture.accept(&sent).await?;
    fixture.change(first.uid, Action::Cancel).await?;
    fixture.advance(seconds(300)).await;
    fixture.change(first.uid, Action::REDRIVE).await?;
    let read = fixture.read(first.uid).await?;
    assert_eq!((read.state, read.keyed), (MessageState::Processing, false));
    let second = fixture.accept(&sent).await?;
    assert_ne!(second.uid, first.uid);
    let within = mail("2").change(|mail| mail.policy.hold = hold);
    let third = fixture.accept(&within).await?;
    fixture.change(third.uid, Action::Cancel).await?;
    fixture.change(third.uid, Action::MarkProcessing).await?;
    fixture.advance(days(1)).await;
    assert!(
        matches!(fixture.accept_again(&within).await?, Accepted::Duplicate { .. }),
        "it was not released"
    );
    Ok(())
}
