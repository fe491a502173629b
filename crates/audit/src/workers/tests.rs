//! Made-up logs: wrong ones must be rejected, correct ones accepted.

use super::{Logs, WorkersTally};
use crate::Result;

/// `k` is sent at 10 and accepted at 12.
const SENT: &str = "10 call 1 accept k,-,h\n12 answer 1 new,u\n";
/// `one` claims it at 20 and holds it from 22 until 100.
const DELIVERED: &str = "20 call 1 work one 5\n22 answer 1 k,u,7,100,1,0,h\n";
/// `one` acknowledges it at 30.
const ACKED: &str = "30 call 2 work one 0 ack,k,7\n32 answer 2 done\n";
const DONE: &str = "k|u|2|1|0|7|0|0";

fn check(logs: &[&str], rows: &str) -> Result<WorkersTally> {
    let mut all = Logs::default();
    for text in logs {
        all.add("log", text)?;
    }
    all.check(rows)
}

/// The first line of the violation.
fn violation(logs: &[&str], rows: &str) -> String {
    let text = check(logs, rows).expect_err("there is a violation").to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn with(start: &str, end: &str) -> String {
    format!("{start}{end}")
}

#[test]
fn a_correct_run_passes_and_is_counted() {
    let worker = format!("{DELIVERED}{ACKED}");
    let tally = check(&[SENT, &worker], DONE).unwrap();
    assert_eq!((tally.accepted, tally.deliveries, tally.settled, tally.done), (1, 1, [1, 0, 0, 0], 1));
    assert_eq!((tally.answered, tally.unanswered), (3, 0));
}

#[test]
fn answered_messages_must_have_a_finished_row() {
    assert!(violation(&[SENT], "").contains("lost"));
    assert!(violation(&[SENT], "k|u|1|0|0|0||0").contains("not finished"));
    check(&["10 call 1 accept k,-,h\n"], "").unwrap();
    check(&["10 call 1 accept k,-,h\n12 error 1\n"], "").unwrap();
    assert!(violation(&[], DONE).contains("no process sent it"));
    let worker = with(DELIVERED, ACKED);
    assert!(violation(&[SENT, &worker], &format!("{DONE}\n{DONE}")).contains("two rows"));
    assert!(violation(&[SENT, &worker], "k|u|2|1|0|7|0|1").contains("not finished"));
}

#[test]
fn an_answered_settlement_is_in_the_row() {
    let worker = with(DELIVERED, ACKED);
    assert!(violation(&[SENT, &worker], "k|u|3|1|0|7|2|0").contains("the row does not show it"));
    assert!(violation(&[SENT, &worker], "k|u|2|2|0|8|0|0").contains("the row does not show it"));
    assert!(violation(&[SENT, DELIVERED], DONE).contains("in another way"));
    assert!(
        violation(&[SENT, &with(DELIVERED, "30 call 2 work one 0 fail,k,7\n")], DONE)
            .contains("in another way")
    );
    // A settlement without an answer may have been applied.
    check(&[SENT, &with(DELIVERED, "30 call 2 work one 0 ack,k,7\n")], DONE).unwrap();
    assert!(violation(&[SENT, &worker], "k|u|2|2|0|7|0|0").contains("deliveries or attempts"));
    let abandoned = with(DELIVERED, "30 call 2 work one 0 abandon,k,7\n31 answer 2 retrying\n");
    let second =
        "40 call 1 work two 1\n41 answer 1 k,u,8,100,2,1,h\n42 call 2 work two 0 ack,k,8\n43 answer 2 done\n";
    check(&[SENT, &abandoned, second], "k|u|2|2|1|8|0|0").unwrap();
    assert!(violation(&[SENT, &abandoned, second], "k|u|2|2|0|8|0|0").contains("deliveries or attempts"));
}

#[test]
fn no_delivery_follows_an_ack() {
    let worker = with(DELIVERED, ACKED);
    let second =
        "40 call 1 work two 1\n41 answer 1 k,u,8,200,2,0,h\n42 call 2 work two 0 ack,k,8\n43 answer 2 done\n";
    assert!(
        violation(&[SENT, &worker, second], "k|u|2|2|0|8|0|0")
            .contains("after Ack under fence 7 was answered")
    );
    // An ack without an answer guarantees nothing.
    let open = with(DELIVERED, "30 call 2 work one 0 ack,k,7\n32 error 2\n");
    check(&[SENT, &open, second], "k|u|2|2|0|8|0|0").unwrap();
}

#[test]
fn a_held_message_is_not_delivered_to_another() {
    let second = "40 call 1 work two 1\n41 answer 1 k,u,8,200,2,1,h\n120 call 2 work two 0 ack,k,8\n121 answer 2 done\n";
    let row = "k|u|2|2|1|8|0|0";
    assert!(violation(&[SENT, DELIVERED, second], row).contains("held twice at once"));
    let shorter = DELIVERED.replace(",100,", ",41,");
    check(&[SENT, &shorter, second], row).unwrap();
    let extended = with(&shorter, "30 call 2 extend one k,7\n31 answer 2 until,90\n");
    assert!(violation(&[SENT, &extended, second], row).contains("held twice at once"));
}

#[test]
fn a_lost_lease_cannot_be_settled_or_extended() {
    let shorter = DELIVERED.replace(",100,", ",35,");
    let second = "40 call 1 work two 1\n41 answer 1 k,u,8,200,2,1,h\n120 call 2 work two 0 ack,k,8\n121 answer 2 done\n";
    let row = "k|u|2|2|1|8|0|0";
    let late = |end: &str| with(&shorter, end);
    check(&[SENT, &late("50 call 2 work one 0 ack,k,7\n51 answer 2 lost\n"), second], row).unwrap();
    let text =
        violation(&[SENT, &late("50 call 2 work one 0 release,k,7\n51 answer 2 released\n"), second], row);
    assert!(text.contains("after another delivery"), "{text}");
    let text = violation(&[SENT, &late("50 call 2 extend one k,7\n51 answer 2 until,70\n"), second], row);
    assert!(text.contains("held twice at once"), "{text}");
    // The answer of the second delivery came after its lease had ended: it cannot overlap with another.
    let passed = "36 call 1 work two 1\n80 answer 1 k,u,8,60,2,1,h\n";
    let third = "95 call 1 work three 1\n96 answer 1 k,u,9,200,3,2,h\n99 call 2 work three 0 ack,k,9\n100 answer 2 done\n";
    let text = violation(
        &[SENT, &late("90 call 2 extend one k,7\n91 answer 2 until,92\n"), passed, third],
        "k|u|2|3|2|9|0|0",
    );
    assert!(text.contains("after another delivery"), "{text}");
    // A repeat may report a settlement that was applied before.
    let repeat = "33 call 2 work one 0 release,k,7\n34 error 2\n50 call 3 work one 0 release,k,7\n51 answer 3 released\n";
    check(&[SENT, &late(repeat), second], row).unwrap();
}

#[test]
fn a_held_lease_can_be_settled_and_extended() {
    let rejected =
        "30 call 2 work one 0 ack,k,7\n32 answer 2 lost\n50 call 3 work one 0 ack,k,7\n51 answer 3 done\n";
    assert!(violation(&[SENT, &with(DELIVERED, rejected)], DONE).contains("rejected although it was held"));
    let rejected =
        "30 call 2 extend one k,7\n32 answer 2 lost\n50 call 3 work one 0 ack,k,7\n51 answer 3 done\n";
    assert!(
        violation(&[SENT, &with(DELIVERED, rejected)], DONE).contains("not extended although it was held")
    );
    let rejected = with(&with(DELIVERED, ACKED), "40 call 3 work one 0 ack,k,7\n41 answer 3 lost\n");
    assert!(
        violation(&[SENT, &rejected], DONE).contains("rejected although it was held"),
        "a repeat has the same outcome"
    );
    let other = with(&with(DELIVERED, ACKED), "40 call 3 work one 0 release,k,7\n41 answer 3 lost\n");
    check(&[SENT, &other], DONE).unwrap();
}

#[test]
fn fences_increase_and_are_unique() {
    let second = "40 call 1 work two 1\n41 answer 1 k,u,6,200,2,1,h\n120 call 2 work two 0 ack,k,6\n121 answer 2 done\n";
    let shorter = DELIVERED.replace(",100,", ",35,");
    assert!(violation(&[SENT, &shorter, second], "k|u|2|2|1|6|0|0").contains("fences must increase"));
    let text = violation(&[SENT, DELIVERED, &DELIVERED.replace("one", "two")], DONE);
    assert!(text.contains("delivered twice under fence 7"), "{text}");
    let other = SENT.replace("k,", "l,").replace(",u", ",v");
    let worker = with(DELIVERED, ACKED);
    let twin = worker.replace(" k,", " l,").replace(",k,", ",l,").replace(",u,", ",v,");
    let rows = format!("{DONE}\n{}", DONE.replace('k', "l").replace('u', "v"));
    assert!(
        violation(&[SENT, &other, &worker, &twin], &rows).contains("fence 7 was granted for k and for l")
    );
}

#[test]
fn a_key_is_accepted_once() {
    let worker = with(DELIVERED, ACKED);
    let again = "15 call 2 accept k,-,h\n16 answer 2 dup,u\n";
    check(&[&with(SENT, again), &worker], DONE).unwrap();
    assert!(
        violation(&[&with(SENT, &again.replace("dup", "new")), &worker], DONE)
            .contains("accepted as new twice")
    );
    assert!(
        violation(&[&with(SENT, &again.replace(",u", ",v")), &worker], DONE).contains("several messages")
    );
    assert!(violation(&[&SENT.replace("new", "dup"), &worker], DONE).contains("no other send"));
    let new_again = "15 call 2 accept k,-,h\n16 answer 2 new,u\n";
    let known = with(&SENT.replace("new", "dup"), new_again);
    assert!(violation(&["9 call 1 accept k,-,h\n", &known, &worker], DONE).contains("after an earlier send"));
    assert!(violation(&[SENT, &worker.replace(",h", ",other")], DONE).contains("different content"));
    assert!(violation(&[&SENT.replace("10", "30"), &worker], DONE).contains("before any process sent it"));
}

#[test]
fn one_message_of_a_partition_is_held_at_a_time() {
    let sent = "10 call 1 accept k,p,h l,p,h\n12 answer 1 new,u new,v\n";
    let worker = with(DELIVERED, ACKED);
    let other =
        "24 call 1 work two 1\n26 answer 1 l,v,8,100,1,0,h\n40 call 2 work two 0 ack,l,8\n41 answer 2 done\n";
    let rows = format!("{DONE}\nl|v|2|1|0|8|0|0");
    // The first is settled at 30, the second is held from 26 on: an overlap of 4 ms.
    check(&[sent, &worker, other], &rows).expect("the tolerance of the clock is 5 ms");
    let earlier = other.replace("24 call", "21 call").replace("26 answer", "23 answer");
    assert!(violation(&[sent, &worker, &earlier], &rows).contains("partition p: held twice at once"));
}

#[test]
fn a_claim_may_be_repeated_and_respects_its_limit() {
    let lost = "18 call 9 work one 5\n19 error 9\n";
    let again = "24 call 8 work one 5\n25 answer 8 k,u,7,100,1,0,h\n";
    check(&[SENT, &format!("{lost}{DELIVERED}{again}{ACKED}")], DONE).unwrap();
    assert!(
        violation(&[SENT, &with(&DELIVERED.replace("one 5", "one 0"), ACKED)], DONE)
            .contains("0 were claimed, 1 were delivered")
    );
}

#[test]
fn a_truncated_line_is_ignored_and_an_invalid_one_rejected() {
    check(&[SENT, &format!("{DELIVERED}{ACKED}40 call 3 wo")], DONE).unwrap();
    assert!(violation(&["hello\n"], "").contains("invalid line"));
    assert!(violation(&["12 answer 1 new,u\n"], "").contains("an answer without a call"));
    let invalid = ACKED.replace("done", "superseded");
    assert!(violation(&[SENT, &with(DELIVERED, &invalid)], DONE).contains("expected `done` or `lost`"));
}

#[test]
fn the_first_answer_after_a_time_is_to_a_later_call() {
    let mut logs = Logs::default();
    logs.add("log", "10 call 1 work one 0\n50 answer 1\n30 call 2 work one 0\n60 answer 2\n").unwrap();
    assert_eq!(logs.first_answer_after(20), Some(60));
    assert_eq!(logs.first_answer_after(30), None);
}
