//! Failures: when a command is retried, and when it becomes a dead letter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox::commands::{CommandStatus, Execution, Mediator, Processor};
use oncebox::{
    Backoff, Failure,
    message::{DeadReason, Namespace},
    operator::Operated,
    store::Clock,
    worker::{Growth, Jitter},
};

use super::kit::{Bank, Pay, backoff, contracts, options, processor};
use crate::fixture::{on_every_store, on_every_store_with};

/// Holds: CMD-15, CMD-16.
#[test]
fn a_failed_command_is_visible_again_after_its_delay() {
    on_every_store(async |fixture| {
        for (growth, max, delays) in [
            (Growth::Fixed, 600, [30, 30, 30]),
            (Growth::Exponential, 600, [30, 60, 120]),
            (Growth::Exponential, 50, [30, 50, 50]),
        ] {
            let bank = Bank::failing(3);
            let [first, max] = [30, max].map(Duration::from_secs);
            let backoff = Backoff::new(first, max, growth, Jitter::None).unwrap();
            let processor =
                processor(&fixture.oncebox, &bank, options(|options| options.retry.backoff = backoff));
            let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
            for (delay, attempt) in delays.into_iter().zip(1..) {
                let stopped = processor.process_pending().await.unwrap();
                assert_eq!((stopped.handled, stopped.retrying), (0, 1));
                let next = fixture.clock.now().after(Duration::from_secs(delay));
                assert_eq!(fixture.status(id).await, CommandStatus::Failed { attempt, next: Some(next) });
                let record = fixture.record(id).await;
                assert_eq!(
                    (record.attempts, record.visible_after, record.lease),
                    (attempt, Some(next), None)
                );
                let error = record.last_error.unwrap();
                assert_eq!(error.as_str(), "std::io::error::Error: the bank is closed");
                fixture.advance(Duration::from_millis(delay * 1_000 - 1));
                assert_eq!(processor.process_pending().await.unwrap().retrying, 0, "not yet");
                fixture.advance(Duration::from_millis(1));
            }
            assert_eq!(processor.process_pending().await.unwrap().handled, 1);
            let record = fixture.record(id).await;
            assert_eq!((record.status, record.attempts), (CommandStatus::Completed, 4));
        }
    });
}

/// Holds: CMD-16.
#[test]
fn a_command_that_fails_too_often_is_dead_lettered_with_its_last_error() {
    on_every_store(async |fixture| {
        let bank = Bank::failing(2);
        let processor = processor(
            &fixture.oncebox,
            &bank,
            options(|options| {
                options.retry.attempts_max = 2;
                options.retry.backoff = backoff(30, Growth::Fixed);
            }),
        );
        let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
        assert_eq!(processor.process_pending().await.unwrap().retrying, 1);
        fixture.advance(Duration::from_secs(30));
        assert_eq!(processor.process_pending().await.unwrap().dead, 1);
        let record = fixture.record(id).await;
        assert_eq!((record.attempts, record.lease), (2, None));
        assert_eq!(record.status, CommandStatus::DeadLettered { reason: DeadReason::Exhausted });
        let error = record.last_error.unwrap();
        assert_eq!(error.as_str(), "std::io::error::Error: the bank is closed", "type and message, no stack");
        fixture.advance(Duration::from_secs(3_600));
        assert_eq!(
            processor.process_pending().await.unwrap(),
            oncebox::WorkerSummary::default(),
            "a dead letter is not leased"
        );

        // An operator redrives it.
        let operator = fixture
            .oncebox
            .operator("ops")
            .in_namespace(Namespace::Commands)
            .because("the bank is open again");
        assert!(matches!(operator.redrive(id).await.unwrap(), Operated::Changed(_)));
        assert_eq!(fixture.status(id).await, CommandStatus::Pending);
        assert_eq!(processor.process_pending().await.unwrap().handled, 1);
        assert_eq!(fixture.status(id).await, CommandStatus::Completed);
    });
}

/// The limit of the scheduler applies if it is set, otherwise that of the processor, whichever of them is larger.
/// Holds: CMD-15, CMD-16, RULE-07.
#[test]
fn the_attempt_limit_of_the_scheduler_overrides_the_processors() {
    on_every_store(async |fixture| {
        for (stored, allowed, runs) in [(None, 10, 10), (None, 2, 2), (Some(7), 10, 7), (Some(7), 2, 7)] {
            let bank = Bank::failing(u32::MAX);
            let mut scheduler = fixture.scheduler();
            if let Some(stored) = stored {
                scheduler = scheduler.attempts_max(stored).unwrap();
            }
            let id = scheduler.schedule(&super::kit::pay(1), super::kit::plain()).await.unwrap().command_id;
            let set = options(|options| options.retry.attempts_max = allowed);
            let processor = processor(&fixture.oncebox, &bank, set);
            while !matches!(fixture.status(id).await, CommandStatus::DeadLettered { .. }) {
                processor.process_pending().await.unwrap();
                fixture.advance(Duration::from_secs(600));
            }
            assert_eq!(fixture.record(id).await.attempts, runs);
        }
    });
}

/// The retry delays of a hundred commands that fail in one pass.
async fn delays(fixture: &crate::fixture::Fixture, backoff: Backoff) -> BTreeSet<Duration> {
    let set = options(|options| (options.batch, options.retry.backoff) = (100, backoff));
    let processor = processor(&fixture.oncebox, &Bank::failing(u32::MAX), set);
    let ids = fixture.pay(0..100).await;
    assert_eq!(processor.process_pending().await.unwrap().retrying, 100);
    let mut delays = BTreeSet::new();
    for id in ids {
        let CommandStatus::Failed { next: Some(next), .. } = fixture.status(id).await else {
            panic!("the command failed")
        };
        delays.insert(next.since(fixture.clock.now()));
    }
    delays
}

/// Holds: CMD-15.
#[test]
fn default_jitter_spreads_delays_by_20_percent() {
    // The same draws in every run.
    let set = |builder: oncebox::OnceboxBuilder| builder.rng(Box::new(oncebox_testkit::SplitMix::new(7)));
    on_every_store_with(set, async |fixture| {
        let [four, five, six] = [4, 5, 6].map(Duration::from_secs);
        let spread = delays(&fixture, oncebox::commands::Retry::default().backoff).await;
        assert!(spread.iter().all(|delay| (four..=six).contains(delay)), "{spread:?}");
        assert!(
            spread.first() < Some(&(four + four / 20))
                && spread.last().is_some_and(|most| *most + six / 20 > six),
            "{spread:?}"
        );
        let none = Backoff::new(five, five, Growth::Exponential, Jitter::None).unwrap();
        assert_eq!(delays(&fixture, none).await, [five].into());
    });
}

/// Holds: CMD-16.
#[test]
fn a_handler_chooses_how_to_fail_and_a_panic_is_a_failure() {
    on_every_store(async |fixture| {
        let handle = async |command: Arc<Pay>, _: Execution| match command.payment {
            1 => Err(Failure::dead("refused for good")),
            2 => panic!("out of cash"),
            _ => Err(Failure::retry_after(Duration::from_secs(7), "try later")),
        };
        let mediator = Mediator::builder().handle(handle).build().unwrap();
        let fixed = Backoff::new(Duration::from_secs(9), Duration::from_secs(9), Growth::Fixed, Jitter::None);
        let set = options(|options| options.retry.backoff = fixed.unwrap());
        let processor = Processor::new(&fixture.oncebox, &contracts(), &mediator, set).unwrap();
        let ids = fixture.pay(1..=3).await;
        processor.process_pending().await.unwrap();
        let failed = |seconds| CommandStatus::Failed {
            attempt: 1,
            next: Some(fixture.clock.now().after(Duration::from_secs(seconds))),
        };
        let expected = [CommandStatus::DeadLettered { reason: DeadReason::Failed }, failed(9), failed(7)];
        for ((id, expected), error) in
            ids.into_iter().zip(expected).zip(["refused", "panic: out of cash", "try later"])
        {
            let record = fixture.record(id).await;
            assert_eq!(record.status, expected);
            assert!(record.last_error.unwrap().as_str().starts_with(error));
        }
    });
}
