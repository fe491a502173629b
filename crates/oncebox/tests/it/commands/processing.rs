//! Processing: one pass, what it takes, and what handlers know.

use std::sync::Arc;
use std::time::Duration;

use oncebox::commands::{Execution, Mediator, Processor, ProcessorOptions, Status};
use oncebox::{Backoff, Failure, Growth, Jitter, Kind, Owner};

use super::kit::{Bank, Pay, contracts, options, pay, plain, processor};
use crate::fixture::on_every_store;

/// Holds: CMD-10, CMD-18.
#[test]
fn a_pass_runs_what_is_due_and_completes_it() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let processor = processor(&fixture.oncebox, &bank, options(|_| {}));
        assert_eq!(processor.process_pending().await.unwrap().handled, 0, "there is nothing yet");
        let ids = fixture.pay(1..=3).await;
        assert_eq!(processor.process_pending().await.unwrap().handled, 3);
        assert_eq!(bank.sorted(), ["1 100", "2 100", "3 100"]);
        for id in ids {
            let record = fixture.record(id).await;
            assert_eq!((record.status, record.attempts, record.lease), (Status::Completed, 1, None));
        }
        assert_eq!(processor.process_pending().await.unwrap().handled, 0);
    });
}

/// Holds: CMD-15, CMD-18.
#[test]
fn a_pass_takes_no_more_than_a_batch_in_order() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        // One at a time, though a pass takes two.
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
fn a_command_is_not_run_before_it_is_visible() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let processor = processor(&fixture.oncebox, &bank, options(|_| {}));
        let later = plain().visible_in(Duration::from_secs(60));
        let id = fixture.scheduler().schedule(&pay(1), later).await.unwrap().command_id;
        fixture.advance(Duration::from_millis(59_999));
        assert_eq!(processor.process_pending().await.unwrap().handled, 0);
        assert_eq!((fixture.status(id).await, fixture.record(id).await.attempts), (Status::Pending, 0));
        fixture.advance(Duration::from_millis(1));
        assert_eq!(processor.process_pending().await.unwrap().handled, 1, "at the very moment");
    });
}

type Noting = Execution<Bank>;

fn told(stage: &str, execution: &Noting) -> Result<(), Failure> {
    let ids = [execution.correlation(), execution.causation(), execution.tenant()];
    let ids = ids.map(|id| id.unwrap_or("-")).join(" ");
    execution.state().note(format!("{stage} {} {ids}", execution.is_inbox_execution()));
    if stage == "error" { Err("as before".into()) } else { Ok(()) }
}

/// Holds: CMD-14.
#[test]
fn every_handler_knows_that_the_command_was_stored_and_where_it_comes_from() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let mediator = Mediator::builder()
            .with_state(bank.clone())
            .before(async |_: Arc<Pay>, execution: Noting| told("before", &execution))
            .handle(async |command: Arc<Pay>, execution: Noting| {
                told("handle", &execution)?;
                if command.payment == 2 { Err(Failure::dead("never")) } else { Ok(()) }
            })
            .after(async |_: Arc<Pay>, execution: Noting| told("after", &execution))
            .on_error(async |_: Arc<Pay>, execution: Noting, _: Failure| told("error", &execution))
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
fn a_handler_knows_which_run_this_is() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        let note = async |_: Arc<Pay>, execution: Noting| {
            let context = execution.context().expect("a processor runs it");
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
async fn senseless_options_are_refused() {
    let oncebox = oncebox::Oncebox::open("memory:").await.unwrap();
    let refused = |set: fn(&mut ProcessorOptions)| {
        let made = Processor::new(&oncebox, &contracts(), &Bank::default().mediator(), options(set));
        let error = made.err().expect("it is refused");
        assert_eq!(error.kind(), Kind::Invalid);
        error.to_string()
    };
    assert_eq!(refused(|options| options.batch = 0), "batch size must be greater than zero");
    assert_eq!(refused(|options| options.lease = Duration::ZERO), "lease must be greater than zero");
    assert_eq!(refused(|options| options.retry.attempts_max = 0), "attempts_max must be greater than zero");
    assert_eq!(refused(|options| options.concurrency = Some(0)), "concurrency must be greater than zero");
    assert_eq!(
        refused(|options| options.poll_interval = Duration::ZERO),
        "poll interval must be greater than zero"
    );
    assert_eq!(
        refused(|options| options.timeout = Some(Duration::ZERO)),
        "timeout must be greater than zero"
    );
    assert_eq!(refused(|options| options.batch = 10_001), "batch size is over 10000");
    assert_eq!(
        refused(|options| options.lease = Duration::from_millis(99)),
        "lease is shorter than 100 ms: heartbeats could not keep it"
    );
    assert_eq!(refused(|options| options.lease = Duration::MAX), "lease is longer than ten years");
    assert!(Owner::new(0).is_err());
    let second = Duration::from_secs(1);
    assert!(Backoff::new(Duration::ZERO, second, Growth::Fixed, Jitter::Fifth).is_err());
    assert!(Backoff::new(second * 2, second, Growth::Exponential, Jitter::None).is_err());
    assert!(Backoff::new(second, Duration::MAX, Growth::Exponential, Jitter::None).is_err());
    assert!(oncebox.health().await.is_healthy(), "what was refused is no loop that fails");
}

/// The inbox and commands share a store, and neither takes what is the other's.
/// Holds: RULE-02.
#[test]
fn a_processor_takes_nothing_of_the_inbox() {
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

/// The topic that payments are stored under.
fn contracts_topic() -> String {
    format!("{}@2", super::kit::PAY)
}
