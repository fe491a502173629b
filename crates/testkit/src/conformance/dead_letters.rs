//! The retention of dead letters: by age and by count, for each topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{
    Accepted, Action, Budget, DeadLetters, Hold, Keep, MessageState, Namespace, Operated, Order, Retention,
    Uid,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, Draft, TICK, days, key_in, mail, message, observation, seconds, topic};

const BUDGET: Budget = Budget::new(1_000);

const fn by_age(keep_days: u64) -> Retention {
    Retention { keep: Some(days(keep_days)), messages_max: None }
}

const fn by_count(messages_max: u32) -> Retention {
    Retention { keep: None, messages_max: Some(messages_max) }
}

/// A budget with a default retention and retentions for some topics.
fn budget<const N: usize>(default: Retention, topics: [(&str, Retention); N]) -> Budget {
    let topics: BTreeMap<_, _> = topics.map(|(name, own)| (topic(name), own)).into();
    Budget { dead_letters: Some(Arc::new(DeadLetters { default, topics })), ..BUDGET }
}

impl Fixture {
    /// Creates a dead letter that dies now, without a dedup window.
    async fn dead_letter(&self, id: &str, topic: &str) -> Checked<Uid> {
        let summary = self.accept(&mail(id).topic(topic).hold(seconds(0), None)).await?;
        self.change(summary.uid, Action::Cancel).await?;
        Ok(summary.uid)
    }

    /// Which of them are still stored.
    async fn kept(&self, letters: &[Uid]) -> Checked<Vec<bool>> {
        let mut kept = Vec::new();
        for letter in letters {
            kept.push(self.find(*letter).await?.is_some());
        }
        Ok(kept)
    }
}

/// Dead letters of the mailbox have their own retention, independent of other Dead messages.
/// Holds: MBX-P-9, RULE-20.
pub async fn dead_letters_are_forgotten_by_their_own_retention(fixture: Fixture) -> TestResult {
    let letter = fixture.dead_letter("1", "orders").await?;
    let dead = fixture.accept(&message("2").hold(seconds(0), None)).await?;
    fixture.change(dead.uid, Action::Cancel).await?;
    let budget = budget(by_age(14), []);
    fixture.advance_almost(days(14)).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.read(letter).await?.state, MessageState::Dead);
    fixture.advance(TICK).await;
    fixture.maintain(&Budget { dead_keep: Some(days(14)), ..BUDGET }).await?;
    assert_eq!(fixture.find(dead.uid).await?, None);
    assert_eq!(fixture.read(letter).await?.state, MessageState::Dead);
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.find(letter).await?, None);
    Ok(())
}

/// A topic can keep its dead letters for longer or shorter than others, without affecting them.
/// Holds: MBX-P-9, RULE-20.
pub async fn each_topic_keeps_its_dead_letters_for_its_own_time(fixture: Fixture) -> TestResult {
    let mut letters = Vec::new();
    for name in ["long", "short", "usual"] {
        letters.push(fixture.dead_letter(name, name).await?);
    }
    let budget = budget(by_age(14), [("long", by_age(90)), ("short", by_age(2))]);
    for (elapsed, kept) in
        [(days(2), [true, false, true]), (days(12), [true, false, false]), (days(76), [false; 3])]
    {
        fixture.advance_almost(elapsed).await;
        let before = fixture.kept(&letters).await?;
        fixture.maintain(&budget).await?;
        assert_eq!(fixture.kept(&letters).await?, before, "nothing is forgotten a millisecond early");
        fixture.advance(TICK).await;
        fixture.maintain(&budget).await?;
        assert_eq!(fixture.kept(&letters).await?, kept);
    }
    Ok(())
}

/// A topic keeps the newest dead letters up to its limit, independent of other topics.
/// Holds: MBX-P-9, RULE-20.
pub async fn dead_letters_beyond_their_limit_are_forgotten(fixture: Fixture) -> TestResult {
    let mut letters = Vec::new();
    for (id, name) in [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c"), ("5", "a"), ("6", "b"), ("7", "c")] {
        letters.push(fixture.dead_letter(id, name).await?);
        fixture.advance(seconds(1)).await;
    }
    let budget = budget(by_count(2), [("b", by_count(1)), ("c", by_count(5))]);
    fixture.advance(REPEAT_WINDOW).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.kept(&letters).await?, [false, false, true, true, true, true, true]);
    Ok(())
}

/// The oldest dead letter is the one that died first, whenever it was accepted; among those that died at the same
/// moment, the one with the lowest number.
/// Holds: MBX-P-9.
pub async fn the_dead_letter_that_died_first_is_forgotten_first(fixture: Fixture) -> TestResult {
    let mut letters = Vec::new();
    for id in ["1", "2", "3", "4"] {
        letters.push(fixture.accept(&mail(id).hold(seconds(0), None)).await?.uid);
    }
    for letter in [3, 0] {
        fixture.change(letters[letter], Action::Cancel).await?;
        fixture.advance(seconds(1)).await;
    }
    for letter in [2, 1] {
        fixture.change(letters[letter], Action::Cancel).await?;
    }
    fixture.advance(REPEAT_WINDOW).await;
    for (messages_max, kept) in
        [(3, [true, true, true, false]), (2, [false, true, true, false]), (1, [false, false, true, false])]
    {
        fixture.maintain(&budget(by_count(messages_max), [])).await?;
        assert_eq!(fixture.kept(&letters).await?, kept, "{messages_max}");
    }
    Ok(())
}

/// Dead letters that their dedup window or repeated settlements require are kept whatever the limit, and do not count.
/// Holds: MBX-P-9, RULE-06.
pub async fn a_limit_of_dead_letters_keeps_required_ones(fixture: Fixture) -> TestResult {
    let promised = fixture.accept(&mail("1").hold(days(1), None)).await?.uid;
    fixture.change(promised, Action::Cancel).await?;
    let repeated = fixture.dead_letter("2", "orders").await?;
    let budget = budget(by_count(0), []);
    fixture.advance_almost(REPEAT_WINDOW).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.kept(&[promised, repeated]).await?, [true, true]);
    fixture.advance(TICK).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.kept(&[promised, repeated]).await?, [true, false]);
    fixture.advance(days(1)).await;
    fixture.maintain(&budget).await?;
    assert_eq!(fixture.kept(&[promised, repeated]).await?, [false, false]);
    Ok(())
}

/// A dead letter without content belongs to no topic: the default retention applies.
/// Holds: MBX-P-9.
pub async fn a_dead_key_without_content_has_the_default_retention(fixture: Fixture) -> TestResult {
    let key = key_in(Namespace::Mailbox, "orders", "1");
    let mut seen = observation(key.clone());
    seen.hold = Hold { window: seconds(0), keep: Keep::After(seconds(0)) };
    let uid = fixture.observe_new(seen).await?.uid;
    fixture.change(key, Action::MarkDead { error: None }).await?;
    fixture.advance(days(14)).await;
    fixture.maintain(&budget(by_age(15), [("orders", by_age(1))])).await?;
    assert_eq!(fixture.kept(&[uid]).await?, [true]);
    fixture.maintain(&budget(by_age(14), [("orders", by_age(90))])).await?;
    assert_eq!(fixture.kept(&[uid]).await?, [false]);
    Ok(())
}

/// However many dead letters and topics there are, a call forgets no more than its budget, and reports how many.
/// Holds: MBX-P-9, IBX-101.
pub async fn dead_letters_are_forgotten_in_bounded_batches(fixture: Fixture) -> TestResult {
    for id in 0..12 {
        fixture.dead_letter(&id.to_string(), ["a", "b", "c", "d"][id % 4]).await?;
    }
    fixture.advance(days(14)).await;
    let budget = Budget { items_max: 5, ..budget(by_age(14), [("b", by_count(1))]) };
    let (mut pieces, mut forgotten) = (0, 0);
    loop {
        let (report, now) = (fixture.store.maintain(budget.clone()).await?, fixture.now().await);
        assert!(report.forgotten <= 5 && report.dead_letters_forgotten == report.forgotten, "{report:?}");
        forgotten += report.forgotten;
        pieces += 1;
        if report.next_due.is_none_or(|due| due > now) || pieces > 100 {
            break;
        }
    }
    assert_eq!(forgotten, 11, "one of `b` stays");
    Ok(())
}

/// The number of topics with dead letters in the cases about many topics.
const TOPICS: usize = 4_300;
/// The number of maintenance calls within which a topic over its retention is found, whatever the cause.
const ROUND_CALLS_MAX: u32 = 10;

fn nth(number: usize) -> String {
    format!("topic {number:04}")
}

/// Creates one dead letter in each of thousands of topics, none of which is required any longer.
async fn thousands(fixture: &Fixture) -> TestResult {
    let letter = |number: usize| mail(&number.to_string()).topic(&nth(number)).hold(seconds(0), None);
    let letters: Vec<_> = (0..TOPICS).map(letter).collect();
    for some in letters.chunks(1_000) {
        let mut orders = Vec::with_capacity(some.len());
        for accepted in fixture.store.accept(some).await? {
            let Accepted::New { summary, .. } = accepted else {
                return Err(format!("a dead letter was not new: {accepted:?}").into());
            };
            orders.push(Order { target: summary.uid.into(), action: Action::Cancel });
        }
        for operated in fixture.store.operate(&orders).await? {
            assert!(matches!(operated, Operated::Changed(_)), "{operated:?}");
        }
    }
    fixture.advance(REPEAT_WINDOW).await;
    fixture.maintain(&budget(by_count(2), [])).await
}

/// The number of dead letters that `calls` maintenance calls forget.
async fn forgotten_by(fixture: &Fixture, budget: &Budget, calls: u32) -> Checked<u64> {
    let mut forgotten = 0;
    for _ in 0..calls {
        forgotten += fixture.store.maintain(budget.clone()).await?.dead_letters_forgotten;
    }
    Ok(forgotten)
}

/// Among thousands of topics, a topic with too many dead letters is trimmed by the maintenance call that finds them no
/// longer required; one with too many because its limit was lowered, within a few calls.
/// Holds: MBX-P-9, RULE-20.
pub async fn a_topic_over_its_limit_is_found_among_thousands(fixture: Fixture) -> TestResult {
    thousands(&fixture).await?;
    for (index, name) in [TOPICS - 1, TOPICS / 2].map(nth).into_iter().enumerate() {
        let mut letters = Vec::new();
        for id in 0..4 {
            letters.push(fixture.dead_letter(&format!("more {index} {id}"), &name).await?);
        }
        fixture.advance(REPEAT_WINDOW).await;
        assert_eq!(forgotten_by(&fixture, &budget(by_count(2), []), 1).await?, 3, "{name}");
        assert_eq!(fixture.kept(&letters).await?, [false, false, true, true], "{name}");
        let lowered = budget(by_count(2), [(&*name, by_count(0))]);
        assert_eq!(forgotten_by(&fixture, &lowered, ROUND_CALLS_MAX).await?, 2, "{name}");
        assert_eq!(fixture.kept(&letters).await?, [false; 4], "{name}");
    }
    Ok(())
}

/// If most topics keep their dead letters for longer, those of a topic with a shorter retention are found within a few
/// calls.
/// Holds: MBX-P-9, RULE-20.
pub async fn a_topic_over_its_age_is_found_among_thousands(fixture: Fixture) -> TestResult {
    thousands(&fixture).await?;
    fixture.advance(days(14)).await;
    let short = [TOPICS - 1, TOPICS / 2].map(nth);
    let budget = budget(by_age(90), [(&*short[0], by_age(14)), (&*short[1], by_age(14))]);
    assert_eq!(forgotten_by(&fixture, &budget, ROUND_CALLS_MAX).await?, 2);
    Ok(())
}
