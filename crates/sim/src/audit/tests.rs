//! The audit on made-up runs: which ones it accepts and which it rejects.

use super::check;
use crate::event::{Event, EventKind, SimContent, WorkerSetup, WorkerTotals};

type Step = (u64, EventKind);

const LEASE_MS: u64 = 1_000;

fn content(topic: &str, payload: &str) -> SimContent {
    SimContent { topic: topic.to_owned(), payload: payload.to_owned(), ..SimContent::default() }
}

fn started(worker: u64) -> EventKind {
    let (concurrency, narrow, rated) = (2, 1, 1);
    let (timeout_ms, stop_budget_ms) = (Some(600), 100);
    let (lease_ms, attempts_max) = (LEASE_MS, None);
    let setup =
        WorkerSetup { concurrency, narrow, rated, lease_ms, timeout_ms, stop_budget_ms, attempts_max };
    EventKind::Started { worker, node: 0, setup }
}

fn stored(key: &str, outcome: &'static str, content: SimContent) -> EventKind {
    EventKind::Stored { key: key.to_owned(), uid: format!("u{key}"), outcome, asked_at: 0, content }
}

fn granted(worker: u64, fence: u64, key: &str, (delivery, attempts): (u32, u32), until: u64) -> EventKind {
    let (uid, content) = (format!("u{key}"), content("plain", "1"));
    EventKind::Granted { worker, fence, uid, delivery, attempts, until, asked_at: 0, content }
}

fn answer(worker: u64, called_at: u64, delivered: &[u64], settled: &[(u64, &'static str)]) -> EventKind {
    let (delivered, settled) = (delivered.to_vec(), settled.to_vec());
    EventKind::AnswerReceived {
        worker,
        asked_at: called_at,
        called_at,
        claimed: true,
        delivered,
        extended: Vec::new(),
        lost: Vec::new(),
        settled,
    }
}

fn heartbeat(worker: u64, called_at: u64, extended: &[u64], lost: &[u64]) -> EventKind {
    let (delivered, settled) = (Vec::new(), Vec::new());
    EventKind::AnswerReceived {
        worker,
        asked_at: called_at,
        called_at,
        claimed: false,
        delivered,
        extended: extended.to_vec(),
        lost: lost.to_vec(),
        settled,
    }
}

fn handler_started(worker: u64, key: &str, delivery: u32) -> EventKind {
    EventKind::HandlerStarted { worker, uid: format!("u{key}"), delivery, content: content("plain", "1") }
}

fn handler_ended(worker: u64, key: &str, delivery: u32, how: &'static str) -> EventKind {
    EventKind::HandlerEnded { worker, uid: format!("u{key}"), delivery, how }
}

fn settled(fence: u64, verdict: &'static str, outcome: &'static str) -> EventKind {
    EventKind::Settled { fence, verdict, outcome }
}

fn final_state(key: &str, state: &'static str, attempts: u32, deliveries: u32) -> EventKind {
    EventKind::FinalState { key: key.to_owned(), uid: format!("u{key}"), state, attempts, deliveries }
}

fn stopped(worker: u64, handled: u64) -> EventKind {
    EventKind::Stopped { worker, totals: WorkerTotals { handled, ..WorkerTotals::default() } }
}

fn fault(worker: u64) -> EventKind {
    EventKind::Fault { node: 0, worker: Some(worker), call: "work", kind: "lost answer" }
}

/// A correct run with one message and one worker.
fn good() -> Vec<Step> {
    vec![
        (0, EventKind::SenderPolicy { attempts_max: Some(2) }),
        (0, started(1)),
        (1, stored("a", "new", content("plain", "1"))),
        (2, EventKind::Answered { key: "a".to_owned(), outcome: "accepted", uid: "ua".to_owned() }),
        (10, granted(1, 1, "a", (1, 0), 1_010)),
        (12, answer(1, 8, &[1], &[])),
        (12, handler_started(1, "a", 1)),
        (50, handler_ended(1, "a", 1, "ok")),
        (60, settled(1, "ack", "done")),
        (62, answer(1, 55, &[], &[(1, "done")])),
        (70, EventKind::Stopping { worker: 1 }),
        (71, stopped(1, 1)),
        (80, final_state("a", "done", 0, 1)),
    ]
}

/// The good run up to the start of the handler.
fn running() -> Vec<Step> {
    good()[..7].to_vec()
}

fn verdict(steps: &[Step]) -> Result<(), String> {
    let mut jumps = 0;
    let mut trace: Vec<Event> = Vec::new();
    for (at, kind) in steps {
        jumps += if let EventKind::ClockJumped { ms } = kind { *ms } else { 0 };
        trace.push(Event { at: *at, store: at + jumps, kind: kind.clone() });
    }
    check(&trace).map(drop).map_err(|violation| violation.text)
}

/// The violation in these steps after the others.
fn after(before: Vec<Step>, steps: &[Step]) -> String {
    let all: Vec<_> = before.into_iter().chain(steps.iter().cloned()).collect();
    verdict(&all).unwrap_err()
}

/// The violation in the good run with one step replaced.
fn with_step(index: usize, step: Step) -> String {
    let mut steps = good();
    steps[index] = step;
    verdict(&steps).unwrap_err()
}

/// The violation in the good run without one step.
fn without(index: usize) -> String {
    let mut steps = good();
    steps.remove(index);
    verdict(&steps).unwrap_err()
}

#[track_caller]
fn assert_contains(found: &str, expected: &str) {
    assert!(found.contains(expected), "{found}");
}

#[test]
fn a_good_run_passes() {
    assert_eq!(verdict(&good()), Ok(()));
}

#[test]
fn an_accepted_message_exists_once_and_ends() {
    assert_contains(&without(2), "a was answered but never stored");
    assert_contains(&without(12), "its final state is missing");
    let gone = EventKind::FinalState {
        key: "a".to_owned(),
        uid: String::new(),
        state: "unknown",
        attempts: 0,
        deliveries: 0,
    };
    assert_contains(&with_step(12, (80, gone)), "a was stored, but is lost");
    assert_contains(&with_step(12, (80, final_state("a", "processing", 0, 1))), "a has not ended");
    assert_contains(&after(good(), &[(81, good()[3].1.clone())]), "a was accepted twice");
    assert_contains(
        &after(good(), &[(81, stored("a", "new", SimContent::default()))]),
        "which is impossible",
    );
    assert_contains(
        &after(good(), &[(81, final_state("b", "done", 0, 1))]),
        "b exists, but was never stored",
    );
}

#[test]
fn a_message_ends_for_a_valid_reason() {
    for state in ["failed", "exhausted", "expired", "undecodable", "unhandled", "cancelled"] {
        assert_contains(&with_step(12, (80, final_state("a", state, 0, 1))), &format!("a ended as {state}"));
    }
    let unhandled = [good()[..4].to_vec(), vec![(80, final_state("a", "exhausted", 0, 0))]].concat();
    assert_contains(&verdict(&unhandled).unwrap_err(), "a ended as exhausted");
    assert_contains(&with_step(8, (60, settled(1, "ack", "expired"))), "a expired, but has no expiry");
    let steps = [(50, handler_ended(1, "a", 1, "retry")), (60, settled(1, "abandon", "exhausted"))];
    assert_contains(&after(running(), &steps), "a is exhausted after 1 attempts");
}

#[test]
fn attempts_and_deliveries_are_counted() {
    assert_contains(
        &with_step(12, (80, final_state("a", "done", 1, 1))),
        "a has 1 attempts and 1 deliveries",
    );
    assert_contains(
        &with_step(12, (80, final_state("a", "done", 0, 2))),
        "a has 0 attempts and 2 deliveries",
    );
    assert_contains(
        &with_step(4, (10, granted(1, 1, "a", (2, 0), 1_010))),
        "a has delivery 2 and 0 attempts",
    );
    assert_contains(
        &with_step(4, (10, granted(1, 1, "a", (1, 1), 1_010))),
        "a has delivery 1 and 1 attempts",
    );
}

#[test]
fn a_done_message_is_not_granted_again() {
    let again = granted(1, 2, "a", (2, 0), 2_000);
    assert_contains(&after(good(), &[(90, again)]), "a was granted although it is Some(\"done\")");
}

#[test]
fn newer_content_is_not_lost() {
    let newer = stored("a", "replaced", content("plain", "2"));
    let steps = [(20, newer), (50, handler_ended(1, "a", 1, "ok")), (60, settled(1, "ack", "done"))];
    assert_contains(&after(running(), &steps), "newer content was accepted meanwhile");
}

#[test]
fn a_handler_starts_with_a_current_delivery_of_its_worker() {
    assert_contains(&without(4), "was never granted");
    assert_contains(&without(5), "a started before its worker received it");
    let other = [(5, started(2)), (12, handler_started(2, "a", 1))];
    assert_contains(&after(good()[..6].to_vec(), &other), "a started in worker 2, not in 1");
    assert_contains(
        &after(running(), &[(13, handler_ended(1, "a", 1, "ok")), (14, handler_started(1, "a", 1))]),
        "a started twice",
    );
    let lost = [(13, heartbeat(1, 13, &[], &[1])), (14, handler_started(1, "a", 1))];
    assert_contains(&after(good()[..6].to_vec(), &lost), "a started after its lease was lost");
    let late = [(1_010, handler_started(1, "a", 1))];
    assert_contains(&after(good()[..6].to_vec(), &late), "a started under a lease that had ended");
    let excused = [
        (13, EventKind::ClockJumped { ms: 5_000 }),
        (14, handler_started(1, "a", 1)),
        (15, handler_ended(1, "a", 1, "ok")),
    ];
    let excused = [good()[..6].to_vec(), excused.to_vec()].concat();
    assert_contains(&verdict(&excused).unwrap_err(), "its final state is missing");
}

#[test]
fn a_message_runs_once_at_a_time_in_a_worker() {
    let again = [(14, EventKind::ClockJumped { ms: 5_000 }), (15, granted(1, 2, "a", (2, 1), 6_015))];
    let again =
        [again.to_vec(), vec![(16, answer(1, 13, &[2], &[])), (16, handler_started(1, "a", 2))]].concat();
    assert_contains(&after(running(), &again), "a runs twice in worker 1");
}

/// Another message, up to the start of its handler.
fn second(content: &SimContent) -> Vec<Step> {
    let (uid, fence, until) = ("ub".to_owned(), 2, 1_020);
    vec![
        (20, stored("b", "new", content.clone())),
        (
            20,
            EventKind::Granted {
                worker: 1,
                fence,
                uid,
                delivery: 1,
                attempts: 0,
                until,
                asked_at: 0,
                content: content.clone(),
            },
        ),
        (20, answer(1, 19, &[2], &[])),
        (
            21,
            EventKind::HandlerStarted {
                worker: 1,
                uid: "ub".to_owned(),
                delivery: 1,
                content: content.clone(),
            },
        ),
    ]
}

/// The steps with their content replaced.
fn with_content(mut steps: Vec<Step>, replacement: &SimContent) -> Vec<Step> {
    for (_, kind) in &mut steps {
        if let EventKind::Stored { content, .. }
        | EventKind::Granted { content, .. }
        | EventKind::HandlerStarted { content, .. } = kind
        {
            *content = replacement.clone();
        }
    }
    steps
}

#[test]
fn a_partition_runs_one_at_a_time_and_in_order() {
    let partitioned = SimContent { partition: Some("p".to_owned()), ..content("plain", "1") };
    let first = with_content(running(), &partitioned);
    assert_contains(&after(first, &second(&partitioned)), "b was granted before a in partition p");
    // With a due time, the order is not fixed, but they still must not run at once.
    let due = SimContent { due: Some(0), ..partitioned };
    let first = with_content(running(), &due);
    assert_contains(&after(first, &second(&due)), "b and a of one partition run at once");
}

#[test]
fn a_worker_respects_its_limits() {
    let narrow = content("narrow", "1");
    assert_contains(
        &after(with_content(running(), &narrow), &second(&narrow)),
        "worker 1 runs 2 of `narrow`",
    );
    let mut wide = running();
    if let EventKind::Started { setup, .. } = &mut wide[1].1 {
        setup.concurrency = 1;
    }
    assert_contains(&after(wide, &second(&content("plain", "1"))), "worker 1 runs 2 handlers");
    let rated = content("rated", "1");
    let mut steps = with_content(running(), &rated);
    for (index, (fence, key)) in [(2, "b"), (3, "c")].into_iter().enumerate() {
        let before = ["a", "b"][index];
        steps.push((19, handler_ended(1, before, 1, "ok")));
        steps.push((20, settled(fence - 1, "ack", "done")));
        let grant = with_content(vec![(20, granted(1, fence, key, (1, 0), 1_020))], &rated);
        steps.push((20, stored(key, "new", rated.clone())));
        steps.extend(grant);
        steps.push((20, answer(1, 19, &[fence], &[(fence - 1, "done")])));
        steps.extend(with_content(vec![(20, handler_started(1, key, 1))], &rated));
    }
    assert_contains(&verdict(&steps).unwrap_err(), "worker 1 started 3 of `rated` in a second");
}

#[test]
fn undecodable_and_unhandled_messages_start_no_handler() {
    assert_contains(
        &verdict(&with_content(running(), &content("number", "x"))).unwrap_err(),
        "its payload is not a number",
    );
    assert_contains(
        &verdict(&with_content(running(), &content("orphan", "1"))).unwrap_err(),
        "its topic has no handler",
    );
    let other = EventKind::HandlerStarted {
        worker: 1,
        uid: "ua".to_owned(),
        delivery: 1,
        content: content("plain", "2"),
    };
    assert_contains(&with_step(6, (12, other)), "a started with other content than was granted");
}

#[test]
fn a_pausing_or_stopping_worker_starts_no_handler() {
    for kind in [EventKind::Paused { worker: 1 }, EventKind::Stopping { worker: 1 }] {
        let steps = [(13, kind), (14, handler_started(1, "a", 1))];
        assert_contains(&after(good()[..6].to_vec(), &steps), "which is paused or stopping");
    }
    assert_contains(
        &after(running(), &[(13, EventKind::Drained { worker: 1 })]),
        "worker 1 is drained, but 1 handlers are running",
    );
    let resumed = [(13, EventKind::Paused { worker: 1 }), (900, EventKind::Resumed { worker: 1 })];
    let kept = [vec![(13, heartbeat(1, 13, &[1], &[]))], resumed.to_vec()].concat();
    assert_contains(&after(good()[..6].to_vec(), &kept), "worker 1 kept a while it was paused");
}

fn topic_paused(sending: bool, receiving: bool) -> EventKind {
    EventKind::TopicPaused { topic: "plain".to_owned(), sending, receiving }
}

/// The steps of a message that is accepted and granted by calls made at this time.
fn asked_at(at: u64) -> Vec<Step> {
    let mut steps =
        vec![(at, stored("b", "new", content("plain", "1"))), (at, granted(1, 2, "b", (1, 0), at))];
    for (_, kind) in &mut steps {
        if let EventKind::Stored { asked_at, .. } | EventKind::Granted { asked_at, .. } = kind {
            *asked_at = at;
        }
    }
    steps
}

#[test]
fn a_pause_applies_to_every_call_a_second_later() {
    let paused = |kinds: &[(u64, EventKind)], at: u64| {
        after(good()[..2].to_vec(), &[kinds.to_vec(), asked_at(at)].concat())
    };
    let (missing, second_later) = ("its final state is missing", 1_020);
    let (accepted, delivered) =
        ("b was accepted although sending to plain", "b was granted although receiving from plain");
    for (kind, violation) in [
        (topic_paused(true, false), accepted),
        (topic_paused(false, true), delivered),
        (topic_paused(true, true), accepted),
    ] {
        assert_contains(&paused(&[(20, kind.clone())], second_later), violation);
        assert_contains(&paused(&[(20, kind.clone())], second_later - 1), missing);
        assert_contains(
            &paused(&[(20, kind.clone()), (30, topic_paused(false, false))], second_later),
            missing,
        );
        // The pause of one part goes on while the other part changes.
        assert_contains(&paused(&[(20, kind), (500, topic_paused(true, true))], second_later), violation);
    }
}

#[test]
fn a_handler_ends_when_its_lease_is_lost() {
    let steps = [(20, heartbeat(1, 18, &[], &[1])), (21, handler_ended(1, "a", 1, "dropped"))];
    assert_contains(&after(running(), &steps), "a continued after its worker knew");
    assert_contains(
        &after(running(), &[(1_009, handler_ended(1, "a", 1, "dropped"))]),
        "a continued after the deadline of its lease",
    );
    let steps = [(1_000, heartbeat(1, 990, &[1], &[])), (1_990, handler_ended(1, "a", 1, "dropped"))];
    assert_contains(&after(running(), &steps), "its final state is missing");
}

#[test]
fn the_verdict_matches_the_end_of_the_handler() {
    assert_contains(
        &after(running(), &[(20, settled(1, "ack", "done"))]),
        "the verdict ack, but its handler ended with None",
    );
    for (how, at, wrong) in [
        ("ok", 50, "release"),
        ("retry", 50, "ack"),
        ("panic", 50, "failed"),
        ("dead", 50, "abandon"),
        ("dropped", 50, "abandon"),
        ("dropped", 620, "ack"),
    ] {
        let steps = [(at, handler_ended(1, "a", 1, how)), (at + 1, settled(1, wrong, "retrying"))];
        assert_contains(&after(running(), &steps), &format!("a got the verdict {wrong}"));
    }
    let waiting = good()[..6].to_vec();
    assert_contains(&after(waiting, &[(20, settled(1, "abandon", "retrying"))]), "a got the verdict abandon");
    let steps = [
        (50, handler_ended(1, "a", 1, "ok")),
        (60, settled(1, "ack", "done")),
        (61, settled(1, "ack", "retrying")),
    ];
    assert_contains(&after(running(), &steps), "a was done, but a repeat returned retrying");
}

#[test]
fn a_worker_settles_and_extends_all_deliveries() {
    let steps = [(50, handler_ended(1, "a", 1, "ok")), (60, answer(1, 55, &[], &[]))];
    assert_contains(&after(running(), &steps), "worker 1 does not settle a");
    let mut claim_that_waited = answer(1, 55, &[], &[]);
    if let EventKind::AnswerReceived { asked_at, .. } = &mut claim_that_waited {
        *asked_at = 49;
    }
    // It need not settle what ended while it waited.
    let handled = [(50, handler_ended(1, "a", 1, "ok")), (60, claim_that_waited)];
    assert!(!after(running(), &handled).contains("does not settle"));
    let steps = [(13, EventKind::Paused { worker: 1 }), (60, answer(1, 55, &[], &[]))];
    assert_contains(&after(good()[..6].to_vec(), &steps), "worker 1 does not settle a");
    assert_contains(&after(running(), &[(60, heartbeat(1, 55, &[], &[]))]), "worker 1 does not extend a");
}

#[test]
fn a_claim_whose_answer_was_lost_is_repeated() {
    let steps = [(11, fault(1)), (14, answer(1, 13, &[], &[]))];
    assert_contains(
        &after(good()[..5].to_vec(), &steps),
        "a was granted to worker 1, which did not repeat the claim",
    );
}

#[test]
fn a_lease_lapses_for_a_valid_reason() {
    let lapsed = |steps: &[Step]| {
        let ended = [(40, handler_ended(1, "a", 1, "dropped"))];
        let end = [(1_100, started(2)), (1_100, granted(2, 2, "a", (2, 1), 9_000))];
        after(running(), &[steps, &ended, &end].concat())
    };
    assert_contains(&lapsed(&[]), "worker 1 let the lease of a lapse");
    for excuse in [EventKind::Crashed { worker: 1 }, EventKind::ClockJumped { ms: 1 }, fault(1)] {
        assert_contains(&lapsed(&[(30, excuse)]), "its final state is missing");
    }
    let taken = [(40, handler_ended(1, "a", 1, "dropped")), (50, granted(1, 2, "a", (2, 1), 9_000))];
    assert_contains(&after(running(), &taken), "a was granted again before the lease of worker 1 ended");
    // Reading the pauses fails, and the claim that waits for it is answered after the worker has stopped.
    let failed_read = |node| EventKind::Fault { node, worker: None, call: "records", kind: "hang" };
    let unreceived = |node| {
        let steps = [(10, failed_read(node)), (11, granted(1, 1, "a", (1, 0), 1_011))];
        let end = [(1_100, started(2)), (1_100, granted(2, 2, "a", (2, 1), 9_000))];
        after(good()[..4].to_vec(), &[&steps[..], &end].concat())
    };
    assert_contains(&unreceived(0), "its final state is missing");
    assert_contains(&unreceived(1), "worker 1 let the lease of a lapse");
    assert_contains(&lapsed(&[(30, failed_read(0))]), "worker 1 let the lease of a lapse");
}

#[test]
fn a_worker_stops_in_time_and_reports_its_totals() {
    assert_contains(&with_step(11, (5_171, stopped(1, 1))), "worker 1 took 5101 ms to stop");
    assert_contains(&with_step(11, (71, stopped(1, 0))), "worker 1 reports");
    assert_contains(&without(11), "worker 1 has not stopped");
    assert_contains(&without(10), "worker 1 stopped without a request");
    assert_contains(
        &after(good(), &[(90, EventKind::WorkerFailed { worker: 1, error: "closed".to_owned() })]),
        "worker 1 failed: closed",
    );
    let hanging = [running(), good()[10..11].to_vec(), vec![(71, stopped(1, 0)), (2_000, fault(1))]].concat();
    let hanging = [hanging, vec![(2_001, final_state("a", "expired", 1, 1))]].concat();
    let mut hanging = with_content(hanging, &SimContent { expires: Some(5), ..content("plain", "1") });
    hanging[0].1 = EventKind::SenderPolicy { attempts_max: Some(9) };
    assert_contains(&verdict(&hanging).unwrap_err(), "1 handlers of worker 1 never ended");
}

#[test]
fn call_rates_are_limited() {
    let call_rate = |calls| EventKind::CallRate { node: 3, call: "work", calls };
    assert_eq!(verdict(&[good(), vec![(90, call_rate(200))]].concat()), Ok(()));
    assert_contains(&after(good(), &[(90, call_rate(250))]), "node 3 called work 250 times in a second");
}
