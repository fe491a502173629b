//! Made-up logs that must be refused, and the honest ones beside them.

use super::{Logs, Tally};
use crate::Result;

/// `k` is sent at 10 and taken in.
const SENT: &str = "10 ask 1 accept k,-,h\n12 got 1 new,u\n";
/// `one` gets it at 22, until 100.
const GIVEN: &str = "20 ask 1 work one 5\n22 got 1 k,u,7,100,1,0,h\n";
/// And acknowledges it at 30.
const ACKED: &str = "30 ask 2 work one 0 ack,k,7\n32 got 2 done\n";
const DONE: &str = "k|u|2|1|0|7|0|0";

fn judged(logs: &[&str], rows: &str) -> Result<Tally> {
    let mut all = Logs::default();
    for text in logs {
        all.add("log", text)?;
    }
    all.judge(rows)
}

/// The fault that is found.
fn fault(logs: &[&str], rows: &str) -> String {
    let text = judged(logs, rows).expect_err("a fault is found").to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn with(start: &str, end: &str) -> String {
    format!("{start}{end}")
}

#[test]
fn an_honest_run_is_told_in_numbers() {
    let worker = format!("{GIVEN}{ACKED}");
    let tally = judged(&[SENT, &worker], DONE).unwrap();
    assert_eq!((tally.accepted, tally.deliveries, tally.settled, tally.done), (1, 1, [1, 0, 0, 0], 1));
    assert_eq!((tally.answered, tally.unanswered), (3, 0));
}

#[test]
fn what_was_answered_must_be_there_and_finished() {
    assert!(fault(&[SENT], "").contains("lost"));
    assert!(fault(&[SENT], "k|u|1|0|0|0||0").contains("not finished"));
    judged(&["10 ask 1 accept k,-,h\n"], "").unwrap();
    judged(&["10 ask 1 accept k,-,h\n12 none 1\n"], "").unwrap();
    assert!(fault(&[], DONE).contains("nobody sent it"));
    let worker = with(GIVEN, ACKED);
    assert!(fault(&[SENT, &worker], &format!("{DONE}\n{DONE}")).contains("twice"));
    assert!(fault(&[SENT, &worker], "k|u|2|1|0|7|0|1").contains("not finished"));
}

#[test]
fn an_answered_end_stands() {
    let worker = with(GIVEN, ACKED);
    assert!(fault(&[SENT, &worker], "k|u|3|1|0|7|2|0").contains("is not there"));
    assert!(fault(&[SENT, &worker], "k|u|2|2|0|8|0|0").contains("is not there"));
    assert!(fault(&[SENT, GIVEN], DONE).contains("asked for something else"));
    assert!(fault(&[SENT, &with(GIVEN, "30 ask 2 work one 0 fail,k,7\n")], DONE).contains("something else"));
    // An end without an answer may have come about.
    judged(&[SENT, &with(GIVEN, "30 ask 2 work one 0 ack,k,7\n")], DONE).unwrap();
    assert!(fault(&[SENT, &worker], "k|u|2|2|0|7|0|0").contains("deliveries or attempts"));
    let abandoned = with(GIVEN, "30 ask 2 work one 0 abandon,k,7\n31 got 2 retrying\n");
    let second =
        "40 ask 1 work two 1\n41 got 1 k,u,8,100,2,1,h\n42 ask 2 work two 0 ack,k,8\n43 got 2 done\n";
    judged(&[SENT, &abandoned, second], "k|u|2|2|1|8|0|0").unwrap();
    assert!(fault(&[SENT, &abandoned, second], "k|u|2|2|0|8|0|0").contains("deliveries or attempts"));
}

#[test]
fn nothing_comes_after_its_ack() {
    let worker = with(GIVEN, ACKED);
    let second =
        "40 ask 1 work two 1\n41 got 1 k,u,8,200,2,0,h\n42 ask 2 work two 0 ack,k,8\n43 got 2 done\n";
    assert!(fault(&[SENT, &worker, second], "k|u|2|2|0|8|0|0").contains("after Ack under 7 was answered"));
    // Without an answer to the ack nobody promised anything, if the lease has ended.
    let open = with(GIVEN, "30 ask 2 work one 0 ack,k,7\n32 none 2\n");
    judged(&[SENT, &open, second], "k|u|2|2|0|8|0|0").unwrap();
}

#[test]
fn nobody_gets_what_another_holds() {
    let second =
        "40 ask 1 work two 1\n41 got 1 k,u,8,200,2,1,h\n120 ask 2 work two 0 ack,k,8\n121 got 2 done\n";
    let row = "k|u|2|2|1|8|0|0";
    assert!(fault(&[SENT, GIVEN, second], row).contains("held twice at once"));
    let shorter = GIVEN.replace(",100,", ",41,");
    judged(&[SENT, &shorter, second], row).unwrap();
    let extended = with(&shorter, "30 ask 2 extend one k,7\n31 got 2 until,90\n");
    assert!(fault(&[SENT, &extended, second], row).contains("held twice at once"));
}

#[test]
fn who_lost_a_lease_has_no_say() {
    let shorter = GIVEN.replace(",100,", ",35,");
    let second =
        "40 ask 1 work two 1\n41 got 1 k,u,8,200,2,1,h\n120 ask 2 work two 0 ack,k,8\n121 got 2 done\n";
    let row = "k|u|2|2|1|8|0|0";
    let late = |end: &str| with(&shorter, end);
    judged(&[SENT, &late("50 ask 2 work one 0 ack,k,7\n51 got 2 lost\n"), second], row).unwrap();
    let text = fault(&[SENT, &late("50 ask 2 work one 0 release,k,7\n51 got 2 released\n"), second], row);
    assert!(text.contains("another had it since"), "{text}");
    let text = fault(&[SENT, &late("50 ask 2 extend one k,7\n51 got 2 until,70\n"), second], row);
    assert!(text.contains("held twice at once"), "{text}");
    // The second was told so late that its lease had ended, and takes no part in the comparison of leases.
    let passed = "36 ask 1 work two 1\n80 got 1 k,u,8,60,2,1,h\n";
    let third =
        "95 ask 1 work three 1\n96 got 1 k,u,9,200,3,2,h\n99 ask 2 work three 0 ack,k,9\n100 got 2 done\n";
    let text = fault(
        &[SENT, &late("90 ask 2 extend one k,7\n91 got 2 until,92\n"), passed, third],
        "k|u|2|3|2|9|0|0",
    );
    assert!(text.contains("another had it since"), "{text}");
    // A repeat may tell what came about before.
    let repeat =
        "33 ask 2 work one 0 release,k,7\n34 none 2\n50 ask 3 work one 0 release,k,7\n51 got 3 released\n";
    judged(&[SENT, &late(repeat), second], row).unwrap();
}

#[test]
fn who_holds_a_lease_has_a_say() {
    let refused = "30 ask 2 work one 0 ack,k,7\n32 got 2 lost\n50 ask 3 work one 0 ack,k,7\n51 got 3 done\n";
    assert!(fault(&[SENT, &with(GIVEN, refused)], DONE).contains("refused, though it was held"));
    let refused = "30 ask 2 extend one k,7\n32 got 2 lost\n50 ask 3 work one 0 ack,k,7\n51 got 3 done\n";
    assert!(fault(&[SENT, &with(GIVEN, refused)], DONE).contains("not extended, though it was held"));
    let refused = with(&with(GIVEN, ACKED), "40 ask 3 work one 0 ack,k,7\n41 got 3 lost\n");
    assert!(
        fault(&[SENT, &refused], DONE).contains("refused, though it was held"),
        "a repeat is told the same"
    );
    let other = with(&with(GIVEN, ACKED), "40 ask 3 work one 0 release,k,7\n41 got 3 lost\n");
    judged(&[SENT, &other], DONE).unwrap();
}

#[test]
fn fences_grow_and_are_nobody_elses() {
    let second =
        "40 ask 1 work two 1\n41 got 1 k,u,6,200,2,1,h\n120 ask 2 work two 0 ack,k,6\n121 got 2 done\n";
    let shorter = GIVEN.replace(",100,", ",35,");
    assert!(fault(&[SENT, &shorter, second], "k|u|2|2|1|6|0|0").contains("fences must grow"));
    let text = fault(&[SENT, GIVEN, &GIVEN.replace("one", "two")], DONE);
    assert!(text.contains("given out twice under 7"), "{text}");
    let other = SENT.replace("k,", "l,").replace(",u", ",v");
    let worker = with(GIVEN, ACKED);
    let twin = worker.replace(" k,", " l,").replace(",k,", ",l,").replace(",u,", ",v,");
    let rows = format!("{DONE}\n{}", DONE.replace('k', "l").replace('u', "v"));
    assert!(fault(&[SENT, &other, &worker, &twin], &rows).contains("fence 7 was granted for k and for l"));
}

#[test]
fn a_key_is_taken_in_once() {
    let worker = with(GIVEN, ACKED);
    let again = "15 ask 2 accept k,-,h\n16 got 2 dup,u\n";
    judged(&[&with(SENT, again), &worker], DONE).unwrap();
    assert!(fault(&[&with(SENT, &again.replace("dup", "new")), &worker], DONE).contains("taken in twice"));
    assert!(fault(&[&with(SENT, &again.replace(",u", ",v")), &worker], DONE).contains("several messages"));
    assert!(fault(&[&SENT.replace("new", "dup"), &worker], DONE).contains("duplicate of nothing"));
    let anew = "15 ask 2 accept k,-,h\n16 got 2 new,u\n";
    let known = with(&SENT.replace("new", "dup"), anew);
    assert!(fault(&["9 ask 1 accept k,-,h\n", &known, &worker], DONE).contains("anew"));
    assert!(fault(&[SENT, &worker.replace(",h", ",other")], DONE).contains("other content"));
    assert!(fault(&[&SENT.replace("10", "30"), &worker], DONE).contains("nobody had sent it"));
}

#[test]
fn a_partition_is_in_one_hand() {
    let sent = "10 ask 1 accept k,p,h l,p,h\n12 got 1 new,u new,v\n";
    let worker = with(GIVEN, ACKED);
    let other = "24 ask 1 work two 1\n26 got 1 l,v,8,100,1,0,h\n40 ask 2 work two 0 ack,l,8\n41 got 2 done\n";
    let rows = format!("{DONE}\nl|v|2|1|0|8|0|0");
    // The first is given up at 30, the second is held from 26 on.
    judged(&[sent, &worker, other], &rows).expect("the clock may be off by so much");
    let earlier = other.replace("24 ask", "21 ask").replace("26 got", "23 got");
    assert!(fault(&[sent, &worker, &earlier], &rows).contains("partition p: held twice at once"));
}

#[test]
fn a_claim_may_be_repeated_and_brings_no_more_than_it_asked_for() {
    let lost = "18 ask 9 work one 5\n19 none 9\n";
    let again = "24 ask 8 work one 5\n25 got 8 k,u,7,100,1,0,h\n";
    judged(&[SENT, &format!("{lost}{GIVEN}{again}{ACKED}")], DONE).unwrap();
    assert!(
        fault(&[SENT, &with(&GIVEN.replace("one 5", "one 0"), ACKED)], DONE)
            .contains("0 were asked for, 1 came")
    );
}

#[test]
fn a_torn_line_was_not_written_and_a_strange_one_is_refused() {
    judged(&[SENT, &format!("{GIVEN}{ACKED}40 ask 3 wo")], DONE).unwrap();
    assert!(fault(&["hello\n"], "").contains("says nothing"));
    assert!(fault(&["12 got 1 new,u\n"], "").contains("nobody asked"));
    let strange = ACKED.replace("done", "superseded");
    assert!(fault(&[SENT, &with(GIVEN, &strange)], DONE).contains("where only `done` and `lost` are right"));
}

#[test]
fn the_first_answer_after_a_moment_is_of_a_later_question() {
    let mut logs = Logs::default();
    logs.add("log", "10 ask 1 work one 0\n50 got 1\n30 ask 2 work one 0\n60 got 2\n").unwrap();
    assert_eq!(logs.first_answer_after(20), Some(60));
    assert_eq!(logs.first_answer_after(30), None);
}
