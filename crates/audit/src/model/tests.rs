//! The model on made-up lines: which ones it accepts and which it rejects.

use super::{Guarantee, Model};
use crate::Result;

const ACCEPT: &str = "call 1 accept inbox/c0/a,a1,f00,retained inbox/c0/b,b1,f00,retained";
const ACCEPTED: &str = "answer 1 new,a1 new,b1";
const A: &str = "message inbox/c0/a,a1,processing,0,0,-,-";
const B: &str = "message inbox/c0/b,b1,processing,0,0,-,-";
const CLAIM: &str = "call 2 work 77 c0 1";
const CLAIMED: &str = "answer 2 inbox/c0/a,5,900,0,1,f00";
const A_LEASED: &str = "message inbox/c0/a,a1,processing,0,1,-,77:5:900:current";
const ACK: &str = "call 3 work 78 c0 0 ack,inbox/c0/a,5";
const A_DONE: &str = "message inbox/c0/a,a1,done,0,1,-,77:5:900:ack+done";

/// Applies the lines of one process, then those of the next, which end with a listing.
fn after(guarantee: Guarantee, before: &[&str], after: &[&str]) -> Result<Model> {
    let mut model = Model::new(guarantee);
    model.begin_run();
    model.apply("open")?;
    model.apply("listed")?;
    before.iter().try_for_each(|line| model.apply(line))?;
    let mut copy = model.fork();
    copy.begin_run();
    copy.apply("open")?;
    after.iter().try_for_each(|line| copy.apply(line))?;
    copy.apply("listed")?;
    Ok(copy)
}

fn violation(before: &[&str], found: &[&str]) -> String {
    after(Guarantee::SurvivesProcess, before, found).unwrap_err().to_string()
}

#[test]
fn answered_calls_must_survive() {
    assert!(after(Guarantee::SurvivesProcess, &[ACCEPT, ACCEPTED], &[A, B]).is_ok());
    assert!(violation(&[ACCEPT, ACCEPTED], &[A]).contains("found inbox/c0/b as None"));
    assert!(violation(&[], &[A]).contains("no call created it"));
}

#[test]
fn a_call_without_an_answer_is_carried_out_completely_or_not_at_all() {
    assert!(after(Guarantee::SurvivesProcess, &[ACCEPT], &[A, B]).is_ok());
    assert!(after(Guarantee::SurvivesProcess, &[ACCEPT], &[]).is_ok());
    assert!(violation(&[ACCEPT], &[A]).contains("carried out partially"));
}

#[test]
fn a_lease_survives_the_process_but_not_the_machine() {
    let lines = [ACCEPT, ACCEPTED, CLAIM, CLAIMED];
    assert!(after(Guarantee::SurvivesProcess, &lines, &[A_LEASED, B]).is_ok());
    assert!(violation(&lines, &[A, B]).contains("found inbox/c0/a as"));
    assert!(after(Guarantee::SurvivesMachine, &lines, &[A, B]).is_ok());
}

#[test]
fn a_claim_without_an_answer_may_be_carried_out() {
    let lines = [ACCEPT, ACCEPTED, CLAIM];
    assert!(after(Guarantee::SurvivesProcess, &lines, &[A, B]).is_ok());
    assert!(after(Guarantee::SurvivesProcess, &lines, &[A_LEASED, B]).is_ok());
    let other = "message inbox/c0/a,a1,processing,0,1,-,99:5:900:current";
    assert!(violation(&lines, &[other, B]).contains("found inbox/c0/a as"));
}

#[test]
fn a_done_message_stays_done() {
    let lines = [ACCEPT, ACCEPTED, CLAIM, CLAIMED, ACK, "answer 3 done"];
    for guarantee in [Guarantee::SurvivesProcess, Guarantee::SurvivesMachine] {
        assert!(after(guarantee, &lines, &[A_DONE, B]).is_ok());
        assert!(after(guarantee, &lines, &[A_LEASED, B]).is_err());
    }
    let mut model = after(Guarantee::SurvivesProcess, &lines, &[A_DONE, B]).unwrap();
    model.apply("call 1 work 79 * 9").unwrap();
    let violation = model.apply("answer 1 inbox/c0/a,6,900,0,2,f00").unwrap_err();
    assert!(violation.to_string().contains("was delivered"), "{violation}");
}

#[test]
fn a_fence_is_never_reused_even_after_its_lease_was_lost() {
    let lines = [ACCEPT, ACCEPTED, CLAIM, CLAIMED];
    let mut model = after(Guarantee::SurvivesMachine, &lines, &[A, B]).unwrap();
    model.apply("call 1 work 79 * 9").unwrap();
    let violation = model.apply("answer 1 inbox/c0/b,5,900,0,1,f00").unwrap_err();
    assert!(violation.to_string().contains("fence 5 was granted twice"), "{violation}");
}

#[test]
fn content_must_match_and_ready_messages_must_be_delivered() {
    let mut model = after(Guarantee::SurvivesProcess, &[ACCEPT, ACCEPTED], &[A, B]).unwrap();
    assert!(model.apply("drained").unwrap_err().to_string().contains("was not delivered"));
    model.apply("call 1 work 79 * 9").unwrap();
    let violation = model.apply("answer 1 inbox/c0/a,6,900,0,1,bad").unwrap_err();
    assert!(violation.to_string().contains("different content"), "{violation}");
}

#[test]
fn a_copy_may_contain_the_calls_made_while_it_was_taken() {
    let mut model = Model::new(Guarantee::SurvivesMachine);
    model.begin_run();
    for line in ["open", "listed", ACCEPT, ACCEPTED, CLAIM, CLAIMED] {
        model.apply(line).unwrap();
    }
    model.begin_copy();
    model.apply(ACK).unwrap();
    model.apply("answer 3 done").unwrap();
    let check = |found: &[&str]| {
        let mut copy = model.fork();
        copy.begin_run();
        found.iter().try_for_each(|line| copy.apply(line))?;
        copy.apply("listed")
    };
    assert!(check(&[A, B]).is_ok() && check(&[A_LEASED, B]).is_ok() && check(&[A_DONE, B]).is_ok());
    assert!(check(&[B]).is_err());
    model.end_copy();
    assert!(model.fork().apply(A_LEASED).and_then(|()| model.fork().apply("listed")).is_err());
}
