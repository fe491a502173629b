//! Processing: what one pass runs, and what handlers can see.

use std::sync::Arc;
use std::time::Duration;

use oncebox::commands::{CommandStatus, Execution, Mediator, Processor, ProcessorOptions};
use oncebox::{
    Backoff, ErrorKind, Failure,
    queue::Owner,
    worker::{Growth, Jitter},
};

use super::kit::{Bank, Pay, contracts, options, pay, plain, processor};
use crate::fixture::on_every_store;

/// Holds: CMD-10, CMD-18.
#[test]
fn a_pass_runs_what_is_due_and_completes_it() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let processor = processor(&fixture.oncebox, &bank, options(|_| {}));
        assert_eq!(processor.process_pending().await.unwrap().handled, 0, "nothing is scheduled yet");
        let ids = fixture.pay(1..=3).await;
        assert_eq!(processor.process_pending().await.unwrap().handled, 3);
        assert_eq!(bank.sorted(), ["1 100", "2 100", "3 100"]);
        for id in ids {
            let record = fixture.record(id).await;
            assert_eq!((record.status, record.attempts, record.lease), (CommandStatus::Completed, 1, None));
        }
        assert_eq!(processor.process_pending().await.unwrap().handled, 0);
    });
}

/// Holds: CMD-15, CMD-18.
#[test]
fn a_pass_runs_at_most_one_batch_in_order() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        // Batches of two, but one command at a time.
        let two = options(|options| (options.batch, options.concurrency) = (2, Some(1)));
        let processor = processor(&fixture.oncebox, &bank, two);
        fixture.pay(1..=5).await;
        for (handled, done) in [(2, 2), (2, 4), (1, 5), (0, 5)] {
            assert_eq!(processor.process_pending().await.unwrap().handled, handled);
            assert_eq!(bank.done().len(), done);
        }
        assert_eq!(bank.done(), ["1 100", "2 100", "3 100", "4 100", "5 100"]);
    });
}

/// Holds: CMD-11.
#[test]
fn a_command_does_not_run_before_it_is_visible() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let processor = processor(&fixture.oncebox, &bank, options(|_| {}));
        let later = plain().visible_in(Duration::from_secs(60));
        let id = fixture.scheduler().schedule(&pay(1), later).await.unwrap().command_id;
        fixture.advance(Duration::from_millis(59_999));
        assert_eq!(processor.process_pending().await.unwrap().handled, 0);
        assert_eq!(
            (fixture.status(id).await, fixture.record(id).await.attempts),
            (CommandStatus::Pending, 0)
        );
        fixture.advance(Duration::from_millis(1));
        assert_eq!(processor.process_pending().await.unwrap().handled, 1, "at the exact time");
    });
}

type Noting = Execution<Bank>;

fn note_stage(stage: &str, execution: &Noting) -> Result<(), Failure> {
    let ids = [execution.correlation(), execution.causation(), execution.tenant()];
    let ids = ids.map(|id| id.unwrap_or("-")).join(" ");
    execution.state().note(format!("{stage} {} {ids}", execution.is_inbox_execution()));
    if stage == "error" { Err("as before".into()) } else { Ok(()) }
}

/// Holds: CMD-14.
#[test]
fn every_handler_sees_that_the_command_was_stored_and_its_trace_ids() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let mediator = Mediator::builder()
            .with_state(bank.clone())
            .before(async |_: Arc<Pay>, execution: Noting| note_stage("before", &execution))
            .handle(async |command: Arc<Pay>, execution: Noting| {
                note_stage("handle", &execution)?;
                if command.payment == 2 { Err(Failure::dead("never")) } else { Ok(()) }
            })
            .after(async |_: Arc<Pay>, execution: Noting| note_stage("after", &execution))
            .on_error(async |_: Arc<Pay>, execution: Noting, _: Failure| note_stage("error", &execution))
            .build()
            .unwrap();
        let processor = Processor::new(&fixture.oncebox, &contracts(), &mediator, options(|_| {})).unwrap();
        let traced = plain().correlation("story").causation("click").tenant("acme");
        fixture.scheduler().schedule(&pay(1), traced).await.unwrap();
        processor.process_pending().await.unwrap();
        fixture.scheduler().schedule(&pay(2), plain().correlation(" ")).await.unwrap();
        processor.process_pending().await.unwrap();
        mediator.send(pay(1)).await.unwrap();
        assert_eq!(
            bank.done(),
            [
                "before true story click acme",
                "handle true story click acme",
                "after true story click acme",
                "before true - - -",
                "handle true - - -",
                "error true - - -",
                "before false - - -",
                "handle false - - -",
                "after false - - -",
            ]
        );
    });
}

/// Holds: CMD-14.
#[test]
fn a_handler_sees_the_delivery_number_and_the_last_error() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let note = async |_: Arc<Pay>, execution: Noting| {
            let context = execution.context().expect("a processor runs the command");
            let run = (execution.command_id().unwrap(), context.delivery(), context.last_error());
            execution.state().note(format!("{run:?}"));
            if context.delivery() == 1 {
                Err(Failure::retry_after(Duration::from_secs(1), "busy"))
            } else {
                Ok(())
            }
        };
        let mediator = Mediator::builder().with_state(bank.clone()).handle(note).build().unwrap();
        let processor = Processor::new(&fixture.oncebox, &contracts(), &mediator, options(|_| {})).unwrap();
        let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
        processor.process_pending().await.unwrap();
        fixture.advance(Duration::from_secs(1));
        processor.process_pending().await.unwrap();
        assert_eq!(bank.done(), [format!("({id}, 1, None)"), format!("({id}, 2, Some(\"busy\"))")]);
    });
}

/// Holds: CMD-15.
#[tokio::test(crate = "crate::timed")]
async fn invalid_processor_options_are_rejected() {
    let oncebox = oncebox::Oncebox::open("memory:").await.unwrap();
    let rejected = |set: fn(&mut ProcessorOptions)| {
        let processor = Processor::new(&oncebox, &contracts(), &Bank::default().mediator(), options(set));
        let error = processor.err().expect("the options are rejected");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    assert_eq!(rejected(|options| options.batch = 0), "batch size must be greater than zero");
    assert_eq!(rejected(|options| options.lease = Duration::ZERO), "lease must be greater than zero");
    assert_eq!(rejected(|options| options.retry.attempts_max = 0), "attempts_max must be greater than zero");
    assert_eq!(rejected(|options| options.concurrency = Some(0)), "concurrency must be greater than zero");
    assert_eq!(
        rejected(|options| options.poll_interval = Duration::ZERO),
        "poll interval must be greater than zero"
    );
    assert_eq!(
        rejected(|options| options.timeout = Some(Duration::ZERO)),
        "timeout must be greater than zero"
    );
    assert_eq!(rejected(|options| options.batch = 10_001), "batch size must be at most 10000");
    assert_eq!(
        rejected(|options| options.lease = Duration::from_millis(99)),
        "lease must be at least 100 ms, or heartbeats cannot extend it in time"
    );
    assert_eq!(rejected(|options| options.lease = Duration::MAX), "lease is longer than ten years");
    assert!(Owner::new(0).is_err());
    let second = Duration::from_secs(1);
    assert!(Backoff::new(Duration::ZERO, second, Growth::Fixed, Jitter::Fifth).is_err());
    assert!(Backoff::new(second * 2, second, Growth::Exponential, Jitter::None).is_err());
    assert!(Backoff::new(second, Duration::MAX, Growth::Exponential, Jitter::None).is_err());
    assert!(oncebox.health().await.is_healthy(), "a rejected processor does not count as a failing loop");
}

/// The inbox and commands share a store, and neither claims messages of the other.
/// Holds: RULE-02.
#[test]
fn a_processor_does_not_claim_inbox_messages() {
    on_every_store(async |fixture| {
        let topic = contracts_topic();
        fixture.enqueue(&topic, "1").await;
        let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
        let bank = Bank::default();
        assert_eq!(
            processor(&fixture.oncebox, &bank, options(|_| {})).process_pending().await.unwrap().handled,
            1
        );
        let worker = oncebox::Worker::new(&fixture.oncebox).on(topic, async || {});
        assert_eq!(worker.run_until_idle().await.unwrap().handled, 1);
        assert_eq!((fixture.show("1").await.deliveries, fixture.record(id).await.attempts), (1, 1));
    });
}

/// The topic under which payments are stored.
fn contracts_topic() -> String {
    format!("{}@2", super::kit::PAY)
}
