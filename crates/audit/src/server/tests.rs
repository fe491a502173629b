//! Made-up answers that must be refused, and the honest ones beside them.

use std::collections::HashSet;

use super::{Began, Book, Delivery, LedgerLease, Marks, Op, Outcome, payload};
use crate::Result;

fn delivery(attempt: u32, until: u64) -> Delivery {
    let (key, msg_id) = ("k".to_owned(), "m".to_owned());
    Delivery { key, msg_id, receipt: format!("r{attempt}"), attempt, until }
}

fn give(book: &mut Book, delivery: &Delivery, now: u64) -> Result<()> {
    book.messages.delivered(delivery, payload(&delivery.key).as_bytes(), now)
}

fn settle(book: &mut Book, delivery: &Delivery, op: Op, outcome: Outcome, now: u64) -> Result<()> {
    book.messages.asks_settle(delivery, op);
    book.messages.settled(delivery, op, outcome, now)
}

/// A book in which `k` was sent and answered `m`.
fn with_message() -> Book {
    let mut book = Book::default();
    let known = book.messages.asks_send("k", None);
    book.messages.sent("k", known, "m", false).unwrap();
    book
}

#[test]
fn what_was_answered_must_be_acked_or_dead_in_the_end() {
    let mut book = with_message();
    assert!(book.messages.close(&HashSet::new()).is_err(), "lost");
    assert_eq!(book.messages.close(&HashSet::from(["m".to_owned()])), Ok(0), "a dead letter");
    book.messages.asks_send("unanswered", None);
    let first = delivery(1, 100);
    give(&mut book, &first, 50).unwrap();
    assert!(book.messages.close(&HashSet::new()).is_err(), "lost after a delivery");
    book.messages.asks_settle(&first, Op::Ack);
    assert_eq!(book.messages.close(&HashSet::new()), Ok(1), "nobody knows");
    book.messages.settled(&first, Op::Ack, Outcome::Counts, 60).unwrap();
    assert_eq!(book.messages.close(&HashSet::new()), Ok(0));
    assert!(book.messages.close(&HashSet::from(["m".to_owned()])).is_err(), "acked and dead");
}

#[test]
fn a_repeat_is_a_duplicate_of_the_first() {
    let mut book = with_message();
    assert!(book.messages.asks_send("k", None));
    assert!(book.messages.sent("k", true, "m", false).is_err(), "taken in anew");
    assert!(book.messages.sent("k", true, "other", true).is_err(), "another message");
    book.messages.sent("k", true, "m", true).unwrap();
    let known = book.messages.asks_send("new", None);
    assert!(book.messages.sent("new", known, "n", true).is_err(), "a duplicate of nothing");
}

#[test]
fn two_sends_at_once_have_one_winner() {
    let mut book = Book::default();
    let known = [(); 2].map(|()| book.messages.asks_send("k", None));
    assert_eq!(known, [false, false]);
    book.messages.sent("k", false, "m", true).unwrap();
    book.messages.sent("k", false, "m", false).unwrap();
    assert!(book.messages.sent("k", false, "m", false).is_err(), "taken in twice");
}

#[test]
fn nothing_comes_after_its_ack() {
    let mut book = with_message();
    give(&mut book, &delivery(2, 100), 50).unwrap();
    settle(&mut book, &delivery(2, 100), Op::Ack, Outcome::Counts, 60).unwrap();
    give(&mut book, &delivery(1, 55), 61).unwrap();
    assert!(give(&mut book, &delivery(3, 200), 110).is_err());
}

#[test]
fn a_delivery_is_nobody_elses_while_it_is_held() {
    let mut book = with_message();
    give(&mut book, &delivery(1, 100), 50).unwrap();
    assert!(give(&mut book, &delivery(2, 200), 99).is_err(), "both are current");
    give(&mut book, &delivery(2, 200), 100).unwrap();
    assert!(settle(&mut book, &delivery(1, 100), Op::Ack, Outcome::Counts, 101).is_err(), "too late");
    settle(&mut book, &delivery(1, 100), Op::Ack, Outcome::Lost, 101).unwrap();
    assert!(settle(&mut book, &delivery(2, 200), Op::Ack, Outcome::Lost, 150).is_err(), "it is held");
}

#[test]
fn an_extension_holds_and_a_question_without_answer_does_not() {
    let mut book = with_message();
    let first = delivery(1, 100);
    give(&mut book, &first, 50).unwrap();
    settle(&mut book, &first, Op::Extend, Outcome::Until(300), 60).unwrap();
    assert!(give(&mut book, &delivery(2, 400), 200).is_err());
    book.messages.asks_settle(&first, Op::Nack);
    give(&mut book, &delivery(3, 400), 200).unwrap();
}

#[test]
fn after_an_ack_without_an_answer_only_an_ack_must_count() {
    let mut book = with_message();
    let first = delivery(1, 100);
    give(&mut book, &first, 50).unwrap();
    book.messages.asks_settle(&first, Op::Ack);
    settle(&mut book, &first, Op::Nack, Outcome::Lost, 60).unwrap();
    settle(&mut book, &first, Op::Extend, Outcome::Lost, 60).unwrap();
    assert!(settle(&mut book, &first, Op::Ack, Outcome::Lost, 60).is_err());
}

#[test]
fn strange_deliveries_are_refused() {
    let mut book = with_message();
    assert!(book.messages.delivered(&delivery(1, 100), b"other", 50).is_err(), "another payload");
    let foreign = Delivery { key: "nobody's".to_owned(), ..delivery(1, 100) };
    assert!(give(&mut book, &foreign, 50).is_err(), "never sent");
    give(&mut book, &delivery(1, 40), 50).unwrap();
    let twin = Delivery { receipt: "other".to_owned(), ..delivery(1, 40) };
    assert!(give(&mut book, &twin, 50).is_err(), "the same number twice");
}

#[test]
fn a_partition_is_in_one_hand() {
    let mut book = Book::default();
    for key in ["a", "b"] {
        book.messages.asks_send(key, Some("p"));
    }
    let of = |key: &str| Delivery { key: key.to_owned(), msg_id: key.to_owned(), ..delivery(1, 100) };
    give(&mut book, &of("a"), 50).unwrap();
    assert!(give(&mut book, &of("b"), 50).is_err());
    book.messages.asks_settle(&of("a"), Op::Ack);
    give(&mut book, &of("b"), 50).unwrap();
}

#[test]
fn a_processed_key_stays_processed() {
    let mut book = Book::default();
    let lease = LedgerLease { key: "k".to_owned(), id: "l".to_owned(), until: 100 };
    let processed = book.keys.asks("k");
    assert!(book.keys.begun("k", processed, &Began::Processed, 50).is_err(), "nobody marked it");
    book.keys.begun("k", processed, &Began::Acquired(lease.clone()), 50).unwrap();
    book.keys.asks_end("k", Marks::Yes);
    assert!(book.keys.marked(&lease, false, 60).is_err(), "its lease is current");
    book.keys.marked(&lease, true, 60).unwrap();
    let processed = book.keys.asks("k");
    assert!(processed);
    assert!(book.keys.begun("k", processed, &Began::Busy, 70).is_err());
    assert!(book.keys.found("k", processed, "Pending").is_err());
    book.keys.found("k", processed, "Processed").unwrap();
}

#[test]
fn a_key_has_one_lease_at_a_time() {
    let mut book = Book::default();
    let lease =
        |id: &str, until| Began::Acquired(LedgerLease { key: "k".to_owned(), id: id.to_owned(), until });
    book.keys.begun("k", false, &lease("one", 100), 50).unwrap();
    assert!(book.keys.begun("k", false, &lease("two", 200), 99).is_err(), "the first is current");
    book.keys.begun("k", false, &lease("three", 200), 100).unwrap();
    book.keys.asks_end("k", Marks::No);
    book.keys.begun("k", false, &lease("four", 300), 150).unwrap();
}
