//! The retention of dead letters: by age and by number, each topic for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{
    Accepted, Action, Budget, DeadLetters, Hold, Keep, Namespace, Operated, Order, Retention, State, Uid,
};

use super::kit::{Checked, Draft, TICK, days, key_in, mail, message, seconds, sighting, topic};
use crate::fixture::{Fixture, TestResult};

const BUDGET: Budget = Budget::new(1_000);

const fn by_age(keep_days: u64) -> Retention {
    Retention { keep: Some(days(keep_days)), messages_max: None }
}

const fn by_number(messages_max: u32) -> Retention {
    Retention { keep: None, messages_max: Some(messages_max) }
}

/// A budget with a retention for all topics and others for some.
fn budget<const N: usize>(default: Retention, topics: [(&str, Retention); N]) -> Budget {
    let topics: BTreeMap<_, _> = topics.map(|(name, own)| (topic(name), own)).into();
    Budget { dead_letters: Some(Arc::new(DeadLetters { default, topics })), ..BUDGET }
}

impl Fixture {
    /// A letter that dies now; its receipt promises nothing.
    async fn dies(&self, id: &str, topic: &str) -> Checked<Uid> {
        let receipt = self.accept(&mail(id).topic(topic).hold(seconds(0), None)).await?;
        self.change(receipt.uid, Action::Cancel).await?;
        Ok(receipt.uid)
    }

    /// Which of them are still here.
    async fn kept(&self, letters: &[Uid]) -> Checked<Vec<bool>> {
        let mut kept = Vec::new();
        for letter in letters {
            kept.push(self.find(*letter).await?.is_some());
        }
        Ok(kept)
    }
}

/// Dead letters of the mailbox have a retention of their own, apart from other Dead messages.
/// Holds: MBX-P-9, RULE-20.
pub async fn dead_letters_are_forgotten_by_their_own_retention(fixture: Fixture) -> TestResult {
    let letter = fixture.dies("1", "orders").await?;
    let dead = fixture.accept(&message("2").hold(seconds(0), None)).await?;
    fixture.change(dead.uid, Action::Cancel).await?;
    let budget = budget(by_age(14), []);
    fixture.pass_nearly(days(14)).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.read(letter).await?.state, State::Dead);
    fixture.pass(TICK).await;
    fixture.upkeep(&Budget { dead_keep: Some(days(14)), ..BUDGET }).await?;
    assert_eq!(fixture.find(dead.uid).await?, None);
    assert_eq!(fixture.read(letter).await?.state, State::Dead);
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.find(letter).await?, None);
    Ok(())
}

/// A topic can keep its dead letters for longer than the others, or for less; the others are not held up by that.
/// Holds: MBX-P-9, RULE-20.
pub async fn each_topic_keeps_its_dead_letters_for_its_own_time(fixture: Fixture) -> TestResult {
    let mut letters = Vec::new();
    for name in ["long", "short", "usual"] {
        letters.push(fixture.dies(name, name).await?);
    }
    let budget = budget(by_age(14), [("long", by_age(90)), ("short", by_age(2))]);
    for (pass, kept) in
        [(days(2), [true, false, true]), (days(12), [true, false, false]), (days(76), [false; 3])]
    {
        fixture.pass_nearly(pass).await;
        let before = fixture.kept(&letters).await?;
        fixture.upkeep(&budget).await?;
        assert_eq!(fixture.kept(&letters).await?, before, "nothing goes a millisecond early");
        fixture.pass(TICK).await;
        fixture.upkeep(&budget).await?;
        assert_eq!(fixture.kept(&letters).await?, kept);
    }
    Ok(())
}

/// A topic keeps so many dead letters, the newest; other topics do not count.
/// Holds: MBX-P-9, RULE-20.
pub async fn dead_letters_beyond_their_number_are_forgotten(fixture: Fixture) -> TestResult {
    let mut letters = Vec::new();
    for (id, name) in [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c"), ("5", "a"), ("6", "b"), ("7", "c")] {
        letters.push(fixture.dies(id, name).await?);
        fixture.pass(seconds(1)).await;
    }
    let budget = budget(by_number(2), [("b", by_number(1)), ("c", by_number(5))]);
    fixture.pass(REPEAT_WINDOW).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.kept(&letters).await?, [false, false, true, true, true, true, true]);
    Ok(())
}

/// The oldest is the one that died first, whatever came first; of those that died at once, the one with the lower number.
/// Holds: MBX-P-9.
pub async fn the_dead_letter_that_died_first_goes_first(fixture: Fixture) -> TestResult {
    let mut letters = Vec::new();
    for id in ["1", "2", "3", "4"] {
        letters.push(fixture.accept(&mail(id).hold(seconds(0), None)).await?.uid);
    }
    for letter in [3, 0] {
        fixture.change(letters[letter], Action::Cancel).await?;
        fixture.pass(seconds(1)).await;
    }
    for letter in [2, 1] {
        fixture.change(letters[letter], Action::Cancel).await?;
    }
    fixture.pass(REPEAT_WINDOW).await;
    for (messages_max, kept) in
        [(3, [true, true, true, false]), (2, [false, true, true, false]), (1, [false, false, true, false])]
    {
        fixture.upkeep(&budget(by_number(messages_max), [])).await?;
        assert_eq!(fixture.kept(&letters).await?, kept, "{messages_max}");
    }
    Ok(())
}

/// What a receipt promised and repeats of a settlement need stays whatever the number, and does not count.
/// Holds: MBX-P-9, RULE-06.
pub async fn a_number_of_dead_letters_breaks_no_promise(fixture: Fixture) -> TestResult {
    let promised = fixture.accept(&mail("1").hold(days(1), None)).await?.uid;
    fixture.change(promised, Action::Cancel).await?;
    let repeated = fixture.dies("2", "orders").await?;
    let budget = budget(by_number(0), []);
    fixture.pass_nearly(REPEAT_WINDOW).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.kept(&[promised, repeated]).await?, [true, true]);
    fixture.pass(TICK).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.kept(&[promised, repeated]).await?, [true, false]);
    fixture.pass(days(1)).await;
    fixture.upkeep(&budget).await?;
    assert_eq!(fixture.kept(&[promised, repeated]).await?, [false, false]);
    Ok(())
}

/// A letter without content belongs to no topic: the retention of all others holds for it.
/// Holds: MBX-P-9.
pub async fn a_dead_key_without_content_goes_by_the_default(fixture: Fixture) -> TestResult {
    let key = key_in(Namespace::Mailbox, "orders", "1");
    let mut seen = sighting(key.clone());
    seen.hold = Hold { window: seconds(0), keep: Keep::After(seconds(0)) };
    let uid = fixture.sight(seen).await?.uid;
    fixture.change(key, Action::MarkDead { error: None }).await?;
    fixture.pass(days(14)).await;
    fixture.upkeep(&budget(by_age(15), [("orders", by_age(1))])).await?;
    assert_eq!(fixture.kept(&[uid]).await?, [true]);
    fixture.upkeep(&budget(by_age(14), [("orders", by_age(90))])).await?;
    assert_eq!(fixture.kept(&[uid]).await?, [false]);
    Ok(())
}

/// However many there are, and in however many topics, a call forgets no more than its budget, and tells how many.
/// Holds: MBX-P-9, IBX-101.
pub async fn dead_letters_are_forgotten_in_bounded_pieces(fixture: Fixture) -> TestResult {
    for id in 0..12 {
        fixture.dies(&id.to_string(), ["a", "b", "c", "d"][id % 4]).await?;
    }
    fixture.pass(days(14)).await;
    let budget = Budget { items_max: 5, ..budget(by_age(14), [("b", by_number(1))]) };
    let (mut pieces, mut forgotten) = (0, 0);
    loop {
        let (upkept, now) = (fixture.store.upkeep(budget.clone()).await?, fixture.now().await);
        assert!(upkept.forgotten <= 5 && upkept.dead_letters_forgotten == upkept.forgotten, "{upkept:?}");
        forgotten += upkept.forgotten;
        pieces += 1;
        if upkept.next_due.is_none_or(|due| due > now) || pieces > 100 {
            break;
        }
    }
    assert_eq!(forgotten, 11, "one of `b` stays");
    Ok(())
}

/// Topics with dead letters, in the cases about many.
const TOPICS: usize = 4_300;
/// Calls of upkeep within which a topic that is over its retention is found, whatever put it there.
const ROUND_CALLS_MAX: u32 = 10;

fn nth(number: usize) -> String {
    format!("topic {number:04}")
}

/// One letter in each of thousands of topics, dead for as long as repeats need them; all are in the care of retention.
async fn thousands(fixture: &Fixture) -> TestResult {
    let letter = |number: usize| mail(&number.to_string()).topic(&nth(number)).hold(seconds(0), None);
    let letters: Vec<_> = (0..TOPICS).map(letter).collect();
    for some in letters.chunks(1_000) {
        let mut orders = Vec::with_capacity(some.len());
        for accepted in fixture.store.accept(some).await? {
            let Accepted::New { receipt, .. } = accepted else {
                return Err(format!("a letter was not new: {accepted:?}").into());
            };
            orders.push(Order { target: receipt.uid.into(), action: Action::Cancel });
        }
        for operated in fixture.store.operate(&orders).await? {
            assert!(matches!(operated, Operated::Changed(_)), "{operated:?}");
        }
    }
    fixture.pass(REPEAT_WINDOW).await;
    fixture.upkeep(&budget(by_number(2), [])).await
}

/// How many letters so many calls of upkeep forget.
async fn forgotten_by(fixture: &Fixture, budget: &Budget, calls: u32) -> Checked<u64> {
    let mut forgotten = 0;
    for _ in 0..calls {
        forgotten += fixture.store.upkeep(budget.clone()).await?.dead_letters_forgotten;
    }
    Ok(forgotten)
}

/// Among thousands of topics, one that gets too many letters is trimmed by the upkeep that finds that they need not be kept; and one that has too
/// many because its bound was lowered, within a few calls.
/// Holds: MBX-P-9, RULE-20.
pub async fn a_topic_over_its_number_is_found_among_thousands(fixture: Fixture) -> TestResult {
    thousands(&fixture).await?;
    for (place, name) in [TOPICS - 1, TOPICS / 2].map(nth).into_iter().enumerate() {
        let mut letters = Vec::new();
        for id in 0..4 {
            letters.push(fixture.dies(&format!("more {place} {id}"), &name).await?);
        }
        fixture.pass(REPEAT_WINDOW).await;
        assert_eq!(forgotten_by(&fixture, &budget(by_number(2), []), 1).await?, 3, "{name}");
        assert_eq!(fixture.kept(&letters).await?, [false, false, true, true], "{name}");
        let lowered = budget(by_number(2), [(&*name, by_number(0))]);
        assert_eq!(forgotten_by(&fixture, &lowered, ROUND_CALLS_MAX).await?, 2, "{name}");
        assert_eq!(fixture.kept(&letters).await?, [false; 4], "{name}");
    }
    Ok(())
}

/// Where some topic keeps its letters for longer than all others, theirs are found within a few calls.
/// Holds: MBX-P-9, RULE-20.
pub async fn a_topic_over_its_age_is_found_among_thousands(fixture: Fixture) -> TestResult {
    thousands(&fixture).await?;
    fixture.pass(days(14)).await;
    let short = [TOPICS - 1, TOPICS / 2].map(nth);
    let budget = budget(by_age(90), [(&*short[0], by_age(14)), (&*short[1], by_age(14))]);
    assert_eq!(forgotten_by(&fixture, &budget, ROUND_CALLS_MAX).await?, 2);
    Ok(())
}
