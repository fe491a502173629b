//! The auditor on made-up lines: what it lets pass and what it does not.

use super::{Promise, World};
use crate::Result;

const ACCEPT: &str = "call 1 accept inbox/c0/a,a1,f00,kept inbox/c0/b,b1,f00,kept";
const ACCEPTED: &str = "answer 1 new,a1 new,b1";
const A: &str = "is inbox/c0/a,a1,processing,0,0,-,-";
const B: &str = "is inbox/c0/b,b1,processing,0,0,-,-";
const CLAIM: &str = "call 2 work 77 c0 1";
const CLAIMED: &str = "answer 2 inbox/c0/a,5,900,0,1,f00";
const A_LEASED: &str = "is inbox/c0/a,a1,processing,0,1,-,77:5:900:current";
const ACK: &str = "call 3 work 78 c0 0 ack,inbox/c0/a,5";
const A_DONE: &str = "is inbox/c0/a,a1,done,0,1,-,77:5:900:ack+done";

/// Hears one process, then the next; the end of `after` is a listing.
fn after(promise: Promise, before: &[&str], after: &[&str]) -> Result<World> {
    let mut world = World::new(promise);
    world.begin_run();
    world.hear("open")?;
    world.hear("listed")?;
    before.iter().try_for_each(|line| world.hear(line))?;
    let mut copy = world.fork();
    copy.begin_run();
    copy.hear("open")?;
    after.iter().try_for_each(|line| copy.hear(line))?;
    copy.hear("listed")?;
    Ok(copy)
}

fn fault(before: &[&str], found: &[&str]) -> String {
    after(Promise::Process, before, found).unwrap_err().to_string()
}

#[test]
fn what_was_answered_must_be_there() {
    assert!(after(Promise::Process, &[ACCEPT, ACCEPTED], &[A, B]).is_ok());
    assert!(fault(&[ACCEPT, ACCEPTED], &[A]).contains("inbox/c0/b stands as None"));
    assert!(fault(&[], &[A]).contains("nobody ever asked"));
}

#[test]
fn a_call_without_an_answer_is_there_as_a_whole_or_not_at_all() {
    assert!(after(Promise::Process, &[ACCEPT], &[A, B]).is_ok());
    assert!(after(Promise::Process, &[ACCEPT], &[]).is_ok());
    assert!(fault(&[ACCEPT], &[A]).contains("half a call"));
}

#[test]
fn a_lease_survives_the_process_but_not_the_machine() {
    let told = [ACCEPT, ACCEPTED, CLAIM, CLAIMED];
    assert!(after(Promise::Process, &told, &[A_LEASED, B]).is_ok());
    assert!(fault(&told, &[A, B]).contains("inbox/c0/a stands as"));
    assert!(after(Promise::Machine, &told, &[A, B]).is_ok());
}

#[test]
fn a_claim_without_an_answer_may_have_happened() {
    let told = [ACCEPT, ACCEPTED, CLAIM];
    assert!(after(Promise::Process, &told, &[A, B]).is_ok());
    assert!(after(Promise::Process, &told, &[A_LEASED, B]).is_ok());
    let other = "is inbox/c0/a,a1,processing,0,1,-,99:5:900:current";
    assert!(fault(&told, &[other, B]).contains("inbox/c0/a stands as"));
}

#[test]
fn what_is_done_stays_done() {
    let told = [ACCEPT, ACCEPTED, CLAIM, CLAIMED, ACK, "answer 3 done"];
    for promise in [Promise::Process, Promise::Machine] {
        assert!(after(promise, &told, &[A_DONE, B]).is_ok());
        assert!(after(promise, &told, &[A_LEASED, B]).is_err());
    }
    let mut world = after(Promise::Process, &told, &[A_DONE, B]).unwrap();
    world.hear("call 1 work 79 * 9").unwrap();
    let again = world.hear("answer 1 inbox/c0/a,6,900,0,2,f00").unwrap_err();
    assert!(again.to_string().contains("was given out"), "{again}");
}

#[test]
fn no_fence_comes_twice_not_even_after_its_lease_was_lost() {
    let told = [ACCEPT, ACCEPTED, CLAIM, CLAIMED];
    let mut world = after(Promise::Machine, &told, &[A, B]).unwrap();
    world.hear("call 1 work 79 * 9").unwrap();
    let again = world.hear("answer 1 inbox/c0/b,5,900,0,1,f00").unwrap_err();
    assert!(again.to_string().contains("fence 5 was granted twice"), "{again}");
}

#[test]
fn content_must_be_the_same_and_everything_ready_claimable() {
    let mut world = after(Promise::Process, &[ACCEPT, ACCEPTED], &[A, B]).unwrap();
    assert!(world.hear("drained").unwrap_err().to_string().contains("cannot be claimed"));
    world.hear("call 1 work 79 * 9").unwrap();
    let other = world.hear("answer 1 inbox/c0/a,6,900,0,1,bad").unwrap_err();
    assert!(other.to_string().contains("other content"), "{other}");
}

#[test]
fn during_a_copy_old_and_new_are_both_fine_but_not_what_was_before() {
    let mut world = World::new(Promise::Machine);
    world.begin_run();
    for line in ["open", "listed", ACCEPT, ACCEPTED, CLAIM, CLAIMED] {
        world.hear(line).unwrap();
    }
    world.begin_copy();
    world.hear(ACK).unwrap();
    world.hear("answer 3 done").unwrap();
    let judged = |found: &[&str]| {
        let mut copy = world.fork();
        copy.begin_run();
        found.iter().try_for_each(|line| copy.hear(line))?;
        copy.hear("listed")
    };
    assert!(judged(&[A, B]).is_ok() && judged(&[A_LEASED, B]).is_ok() && judged(&[A_DONE, B]).is_ok());
    assert!(judged(&[B]).is_err());
    world.end_copy();
    assert!(world.fork().hear(A_LEASED).and_then(|()| world.fork().hear("listed")).is_err());
}
