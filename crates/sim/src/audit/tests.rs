//! The audit on made-up runs: what it lets pass and what it does not.

use super::judge;
use crate::event::{Content, Event, Setup, Sums, What};

type Step = (u64, What);

const LEASE_MS: u64 = 1_000;

fn content(topic: &str, payload: &str) -> Content {
    Content { topic: topic.to_owned(), payload: payload.to_owned(), ..Content::default() }
}

fn started(worker: u64) -> What {
    let (concurrency, narrow, rated) = (2, 1, 1);
    let (timeout_ms, stop_budget_ms) = (Some(600), 100);
    let (lease_ms, attempts_max) = (LEASE_MS, None);
    let setup = Setup { concurrency, narrow, rated, lease_ms, timeout_ms, stop_budget_ms, attempts_max };
    What::Started { worker, setup }
}

fn stored(key: &str, outcome: &'static str, content: Content) -> What {
    What::Stored { key: key.to_owned(), uid: format!("u{key}"), outcome, content }
}

fn granted(worker: u64, fence: u64, key: &str, (delivery, attempts): (u32, u32), until: u64) -> What {
    let (uid, content) = (format!("u{key}"), content("plain", "1"));
    What::Granted { worker, fence, uid, delivery, attempts, until, content }
}

fn told(worker: u64, asked_at: u64, brought: &[u64], settled: &[(u64, &'static str)]) -> What {
    let (brought, settled) = (brought.to_vec(), settled.to_vec());
    What::Told { worker, asked_at, claimed: true, brought, kept: Vec::new(), lost: Vec::new(), settled }
}

fn beat(worker: u64, asked_at: u64, kept: &[u64], lost: &[u64]) -> What {
    let (brought, settled) = (Vec::new(), Vec::new());
    What::Told {
        worker,
        asked_at,
        claimed: false,
        brought,
        kept: kept.to_vec(),
        lost: lost.to_vec(),
        settled,
    }
}

fn began(worker: u64, key: &str, delivery: u32) -> What {
    What::Began { worker, uid: format!("u{key}"), delivery, content: content("plain", "1") }
}

fn ended(worker: u64, key: &str, delivery: u32, how: &'static str) -> What {
    What::Ended { worker, uid: format!("u{key}"), delivery, how }
}

fn settled(fence: u64, verdict: &'static str, outcome: &'static str) -> What {
    What::Settled { fence, verdict, outcome }
}

fn stands(key: &str, state: &'static str, attempts: u32, deliveries: u32) -> What {
    What::Stands { key: key.to_owned(), uid: format!("u{key}"), state, attempts, deliveries }
}

fn stopped(worker: u64, handled: u64) -> What {
    What::Stopped { worker, sums: Sums { handled, ..Sums::default() } }
}

fn fault(worker: u64) -> What {
    What::Fault { node: 0, worker: Some(worker), call: "work", kind: "after" }
}

/// One message, one worker, and nothing wrong.
fn good() -> Vec<Step> {
    vec![
        (0, What::Rules { attempts_max: Some(2) }),
        (0, started(1)),
        (1, stored("a", "new", content("plain", "1"))),
        (2, What::Answered { key: "a".to_owned(), outcome: "accepted", uid: "ua".to_owned() }),
        (10, granted(1, 1, "a", (1, 0), 1_010)),
        (12, told(1, 8, &[1], &[])),
        (12, began(1, "a", 1)),
        (50, ended(1, "a", 1, "ok")),
        (60, settled(1, "ack", "done")),
        (62, told(1, 55, &[], &[(1, "done")])),
        (70, What::Stopping { worker: 1 }),
        (71, stopped(1, 1)),
        (80, stands("a", "done", 0, 1)),
    ]
}

/// Up to the moment when the handler runs.
fn running() -> Vec<Step> {
    good()[..7].to_vec()
}

fn verdict(steps: &[Step]) -> Result<(), String> {
    let mut leaps = 0;
    let mut trace: Vec<Event> = Vec::new();
    for (at, what) in steps {
        leaps += if let What::Leapt { ms } = what { *ms } else { 0 };
        trace.push(Event { at: *at, store: at + leaps, what: what.clone() });
    }
    judge(&trace).map(drop).map_err(|fault| fault.text)
}

/// What the audit says about these steps after the others.
fn after(before: Vec<Step>, steps: &[Step]) -> String {
    let all: Vec<_> = before.into_iter().chain(steps.iter().cloned()).collect();
    verdict(&all).unwrap_err()
}

/// What the audit says about the good run with one step exchanged.
fn instead(place: usize, step: Step) -> String {
    let mut steps = good();
    steps[place] = step;
    verdict(&steps).unwrap_err()
}

/// What the audit says about the good run without one step.
fn without(place: usize) -> String {
    let mut steps = good();
    steps.remove(place);
    verdict(&steps).unwrap_err()
}

#[track_caller]
fn says(found: &str, expected: &str) {
    assert!(found.contains(expected), "{found}");
}

#[test]
fn a_good_run_passes() {
    assert_eq!(verdict(&good()), Ok(()));
}

#[test]
fn what_was_accepted_is_there_once_and_ends() {
    says(&without(2), "a was answered and is not there");
    says(&without(12), "nobody looked how it stands");
    let gone = What::Stands {
        key: "a".to_owned(),
        uid: String::new(),
        state: "unknown",
        attempts: 0,
        deliveries: 0,
    };
    says(&instead(12, (80, gone)), "a was stored and is lost");
    says(&instead(12, (80, stands("a", "processing", 0, 1))), "a has not ended");
    says(&after(good(), &[(81, good()[3].1.clone())]), "a was accepted twice");
    says(&after(good(), &[(81, stored("a", "new", Content::default()))]), "which it cannot be");
    says(&after(good(), &[(81, stands("b", "done", 0, 1))]), "b is there, and nobody has stored it");
}

#[test]
fn a_message_ends_for_a_reason() {
    for state in ["failed", "exhausted", "expired", "undecodable", "unhandled", "cancelled"] {
        says(&instead(12, (80, stands("a", state, 0, 1))), &format!("a ended as {state}"));
    }
    let unhandled = [good()[..4].to_vec(), vec![(80, stands("a", "exhausted", 0, 0))]].concat();
    says(&verdict(&unhandled).unwrap_err(), "a ended as exhausted");
    says(&instead(8, (60, settled(1, "ack", "expired"))), "a has no expiry and expired");
    let steps = [(50, ended(1, "a", 1, "retry")), (60, settled(1, "abandon", "exhausted"))];
    says(&after(running(), &steps), "a is exhausted after 1 attempts");
}

#[test]
fn attempts_and_deliveries_are_what_was_seen() {
    says(&instead(12, (80, stands("a", "done", 1, 1))), "a has 1 attempts and 1 deliveries");
    says(&instead(12, (80, stands("a", "done", 0, 2))), "a has 0 attempts and 2 deliveries");
    says(&instead(4, (10, granted(1, 1, "a", (2, 0), 1_010))), "a has delivery 2 and 0 attempts");
    says(&instead(4, (10, granted(1, 1, "a", (1, 1), 1_010))), "a has delivery 1 and 1 attempts");
}

#[test]
fn what_is_done_is_not_granted_again() {
    let again = granted(1, 2, "a", (2, 0), 2_000);
    says(&after(good(), &[(90, again)]), "a is Some(\"done\") and was granted");
}

#[test]
fn newer_content_is_not_lost() {
    let newer = stored("a", "replaced", content("plain", "2"));
    let steps = [(20, newer), (50, ended(1, "a", 1, "ok")), (60, settled(1, "ack", "done"))];
    says(&after(running(), &steps), "newer content came meanwhile");
}

#[test]
fn a_handler_has_the_delivery_that_it_works_on() {
    says(&without(4), "was never granted");
    says(&without(5), "a began before its worker got it");
    let other = [(5, started(2)), (12, began(2, "a", 1))];
    says(&after(good()[..6].to_vec(), &other), "a began in worker 2, not in 1");
    says(&after(running(), &[(13, ended(1, "a", 1, "ok")), (14, began(1, "a", 1))]), "a began twice");
    let lost = [(13, beat(1, 13, &[], &[1])), (14, began(1, "a", 1))];
    says(&after(good()[..6].to_vec(), &lost), "a began after its lease was lost");
    let late = [(1_010, began(1, "a", 1))];
    says(&after(good()[..6].to_vec(), &late), "a began under a lease that had ended");
    let excused = [(13, What::Leapt { ms: 5_000 }), (14, began(1, "a", 1)), (15, ended(1, "a", 1, "ok"))];
    let excused = [good()[..6].to_vec(), excused.to_vec()].concat();
    says(&verdict(&excused).unwrap_err(), "nobody looked how it stands");
}

#[test]
fn a_message_is_in_one_handler_of_a_worker() {
    let again = [(14, What::Leapt { ms: 5_000 }), (15, granted(1, 2, "a", (2, 1), 6_015))];
    let again = [again.to_vec(), vec![(16, told(1, 13, &[2], &[])), (16, began(1, "a", 2))]].concat();
    says(&after(running(), &again), "a runs twice in worker 1");
}

/// Another message, up to its handler.
fn second(content: &Content) -> Vec<Step> {
    let (uid, fence, until) = ("ub".to_owned(), 2, 1_020);
    vec![
        (20, stored("b", "new", content.clone())),
        (
            20,
            What::Granted {
                worker: 1,
                fence,
                uid,
                delivery: 1,
                attempts: 0,
                until,
                content: content.clone(),
            },
        ),
        (20, told(1, 19, &[2], &[])),
        (21, What::Began { worker: 1, uid: "ub".to_owned(), delivery: 1, content: content.clone() }),
    ]
}

/// The run so far, with this content in the place of the usual.
fn with_content(mut steps: Vec<Step>, replacement: &Content) -> Vec<Step> {
    for (_, what) in &mut steps {
        if let What::Stored { content, .. } | What::Granted { content, .. } | What::Began { content, .. } =
            what
        {
            *content = replacement.clone();
        }
    }
    steps
}

#[test]
fn a_partition_runs_one_at_a_time_and_in_order() {
    let partitioned = Content { partition: Some("p".to_owned()), ..content("plain", "1") };
    let first = with_content(running(), &partitioned);
    says(&after(first, &second(&partitioned)), "b was granted before a, in p");
    // With a due time the order is open, but not that they run at once.
    let due = Content { due: Some(0), ..partitioned };
    let first = with_content(running(), &due);
    says(&after(first, &second(&due)), "b and a of one partition run at once");
}

#[test]
fn a_worker_keeps_its_limits() {
    let narrow = content("narrow", "1");
    says(&after(with_content(running(), &narrow), &second(&narrow)), "worker 1 runs 2 of `narrow`");
    let mut wide = running();
    if let What::Started { setup, .. } = &mut wide[1].1 {
        setup.concurrency = 1;
    }
    says(&after(wide, &second(&content("plain", "1"))), "worker 1 runs 2 handlers");
    let rated = content("rated", "1");
    let mut steps = with_content(running(), &rated);
    for (place, (fence, key)) in [(2, "b"), (3, "c")].into_iter().enumerate() {
        let before = ["a", "b"][place];
        steps.push((19, ended(1, before, 1, "ok")));
        steps.push((20, settled(fence - 1, "ack", "done")));
        let grant = with_content(vec![(20, granted(1, fence, key, (1, 0), 1_020))], &rated);
        steps.push((20, stored(key, "new", rated.clone())));
        steps.extend(grant);
        steps.push((20, told(1, 19, &[fence], &[(fence - 1, "done")])));
        steps.extend(with_content(vec![(20, began(1, key, 1))], &rated));
    }
    says(&verdict(&steps).unwrap_err(), "worker 1 started 3 of `rated` in a second");
}

#[test]
fn garbage_and_orphans_have_no_handler() {
    says(
        &verdict(&with_content(running(), &content("number", "x"))).unwrap_err(),
        "its payload is no number",
    );
    says(
        &verdict(&with_content(running(), &content("orphan", "1"))).unwrap_err(),
        "nobody handles its topic",
    );
    let other = What::Began { worker: 1, uid: "ua".to_owned(), delivery: 1, content: content("plain", "2") };
    says(&instead(6, (12, other)), "a began with another content than was granted");
}

#[test]
fn a_worker_that_pauses_or_stops_begins_nothing() {
    for what in [What::Paused { worker: 1 }, What::Stopping { worker: 1 }] {
        let steps = [(13, what), (14, began(1, "a", 1))];
        says(&after(good()[..6].to_vec(), &steps), "which was told to begin nothing");
    }
    says(&after(running(), &[(13, What::Drained { worker: 1 })]), "worker 1 is drained, and 1 handlers run");
    let resumed = [(13, What::Paused { worker: 1 }), (900, What::Resumed { worker: 1 })];
    let kept = [vec![(13, beat(1, 13, &[1], &[]))], resumed.to_vec()].concat();
    says(&after(good()[..6].to_vec(), &kept), "worker 1 kept a while it was paused");
}

#[test]
fn a_handler_ends_when_its_lease_is_lost() {
    let steps = [(20, beat(1, 18, &[], &[1])), (21, ended(1, "a", 1, "dropped"))];
    says(&after(running(), &steps), "a went on after its worker was told");
    says(
        &after(running(), &[(1_009, ended(1, "a", 1, "dropped"))]),
        "a went on after its lease had to be given up",
    );
    let steps = [(1_000, beat(1, 990, &[1], &[])), (1_990, ended(1, "a", 1, "dropped"))];
    says(&after(running(), &steps), "nobody looked how it stands");
}

#[test]
fn the_store_hears_how_the_handler_ended() {
    says(
        &after(running(), &[(20, settled(1, "ack", "done"))]),
        "the verdict ack, and its handler ended None",
    );
    for (how, at, wrong) in [
        ("ok", 50, "release"),
        ("retry", 50, "ack"),
        ("panic", 50, "failed"),
        ("dead", 50, "abandon"),
        ("dropped", 50, "abandon"),
        ("dropped", 620, "ack"),
    ] {
        let steps = [(at, ended(1, "a", 1, how)), (at + 1, settled(1, wrong, "retrying"))];
        says(&after(running(), &steps), &format!("a got the verdict {wrong}"));
    }
    let waiting = good()[..6].to_vec();
    says(&after(waiting, &[(20, settled(1, "abandon", "retrying"))]), "a got the verdict abandon");
    let steps =
        [(50, ended(1, "a", 1, "ok")), (60, settled(1, "ack", "done")), (61, settled(1, "ack", "retrying"))];
    says(&after(running(), &steps), "a was done and is retrying");
}

#[test]
fn a_worker_says_all_and_extends_all() {
    let steps = [(50, ended(1, "a", 1, "ok")), (60, told(1, 55, &[], &[]))];
    says(&after(running(), &steps), "worker 1 does not say what became of a");
    let steps = [(13, What::Paused { worker: 1 }), (60, told(1, 55, &[], &[]))];
    says(&after(good()[..6].to_vec(), &steps), "worker 1 does not say what became of a");
    says(&after(running(), &[(60, beat(1, 55, &[], &[]))]), "worker 1 does not extend a");
}

#[test]
fn a_claim_whose_answer_was_lost_is_repeated() {
    let steps = [(11, fault(1)), (14, told(1, 13, &[], &[]))];
    says(&after(good()[..5].to_vec(), &steps), "a was granted to worker 1, which never asked for it again");
}

#[test]
fn a_lease_lapses_for_a_reason() {
    let lapsed = |steps: &[Step]| {
        let ended = [(40, ended(1, "a", 1, "dropped"))];
        let end = [(1_100, started(2)), (1_100, granted(2, 2, "a", (2, 1), 9_000))];
        after(running(), &[steps, &ended, &end].concat())
    };
    says(&lapsed(&[]), "worker 1 let the lease of a lapse");
    for excuse in [What::Crashed { worker: 1 }, What::Leapt { ms: 1 }, fault(1)] {
        says(&lapsed(&[(30, excuse)]), "nobody looked how it stands");
    }
    let taken = [(40, ended(1, "a", 1, "dropped")), (50, granted(1, 2, "a", (2, 1), 9_000))];
    says(&after(running(), &taken), "a was taken from worker 1");
}

#[test]
fn a_worker_stops_in_time_and_says_what_it_did() {
    says(&instead(11, (5_171, stopped(1, 1))), "worker 1 took 5101 ms to stop");
    says(&instead(11, (71, stopped(1, 0))), "worker 1 says");
    says(&without(11), "worker 1 has not stopped");
    says(&without(10), "nobody asked it to");
    says(
        &after(good(), &[(90, What::Broke { worker: 1, why: "closed".to_owned() })]),
        "ended by itself: closed",
    );
    let hanging = [running(), good()[10..11].to_vec(), vec![(71, stopped(1, 0)), (2_000, fault(1))]].concat();
    let hanging = [hanging, vec![(2_001, stands("a", "expired", 1, 1))]].concat();
    let mut hanging = with_content(hanging, &Content { expires: Some(5), ..content("plain", "1") });
    hanging[0].1 = What::Rules { attempts_max: Some(9) };
    says(&verdict(&hanging).unwrap_err(), "1 handlers of worker 1 never ended");
}

#[test]
fn nobody_calls_without_pause() {
    let hurry = |calls| What::Hurry { node: 3, call: "work", calls };
    assert_eq!(verdict(&[good(), vec![(90, hurry(200))]].concat()), Ok(()));
    says(&after(good(), &[(90, hurry(250))]), "node 3 called work 250 times in a second");
}
