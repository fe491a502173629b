//! The processor loop: when it polls, starts and stops, and how health reports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::commands::{CommandStatus, Execution, Mediator, Processor, ProcessorOptions};
use oncebox::{Failure, Oncebox, WorkerSummary, health::HealthLevel};
use oncebox_testkit::faulty::{FaultPlan, FaultyStore, InjectedFault, Operation};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::kit::{Bank, Pay, contracts, options, pay, plain, processor};
use crate::capture::Capture;
use crate::fixture::{Fixture, Paused, on_every_store};

/// Longer than any test may take, so waiting for it means that the test fails.
const LONG: Duration = Duration::from_secs(3_600);
const TIMEOUT: Duration = Duration::from_secs(120);

/// A processor that adds a permit for every command that it runs.
fn counting(oncebox: &Oncebox, done: &Arc<Semaphore>, set: impl FnOnce(&mut ProcessorOptions)) -> Processor {
    let count = async |_: Arc<Pay>, execution: Execution<Arc<Semaphore>>| {
        execution.state().add_permits(1);
        Ok::<(), Failure>(())
    };
    let mediator = Mediator::builder().with_state(done.clone()).handle(count).build().unwrap();
    Processor::new(oncebox, &contracts(), &mediator, options(set)).unwrap()
}

async fn all_done(done: &Semaphore, count: u32) {
    timeout(TIMEOUT, done.acquire_many(count)).await.expect("the commands run").unwrap().forget();
}

/// Holds: CMD-18.
#[test]
fn a_full_batch_is_followed_by_the_next_at_once_and_new_commands_wake_the_loop() {
    on_every_store(async |fixture| {
        fixture.pay(1..=6).await;
        let done = Arc::new(Semaphore::new(0));
        let processor = counting(&fixture.oncebox, &done, |options| {
            (options.batch, options.concurrency, options.poll_interval) = (2, Some(2), LONG);
        });
        let scheduled = async {
            all_done(&done, 6).await;
            fixture.pay([7]).await;
            all_done(&done, 1).await;
        };
        let stopped = timeout(TIMEOUT, processor.run(scheduled)).await.expect("it stops").unwrap();
        assert_eq!(stopped.handled, 7);
    });
}

/// Holds: CMD-18.
#[test]
fn a_disabled_loop_and_a_loop_stopped_during_its_start_up_delay_run_nothing() {
    on_every_store(async |fixture| {
        let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
        let done = Arc::new(Semaphore::new(0));
        let hooks = Arc::new(AtomicU32::new(0));
        let run = |set: fn(&mut ProcessorOptions), hooks: Arc<AtomicU32>| {
            let hook = move || async move {
                hooks.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            let processor = counting(&fixture.oncebox, &done, set).on_start(hook);
            timeout(TIMEOUT, processor.run(tokio::task::yield_now()))
        };
        let disabled = run(|options| options.enabled = false, hooks.clone()).await;
        assert_eq!(disabled.expect("it stops").unwrap(), WorkerSummary::default());
        let delayed = run(|options| options.startup_delay = LONG, hooks.clone()).await;
        assert_eq!(delayed.expect("it stops").unwrap(), WorkerSummary::default());
        assert_eq!((hooks.load(Ordering::SeqCst), fixture.status(id).await), (0, CommandStatus::Pending));
    });
}

/// Holds: CMD-18.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn the_loop_observes_its_start_up_delay_and_poll_interval() {
    let inbox = Paused::new();
    let scheduler = inbox.oncebox.scheduler(&contracts());
    let id = scheduler.schedule(&pay(1), plain()).await.unwrap().command_id;
    let later = plain().visible_in(Duration::from_secs(70));
    let late = scheduler.schedule(&pay(2), later).await.unwrap().command_id;
    let done = Arc::new(Semaphore::new(0));
    let processor = counting(&inbox.oncebox, &done, |options| {
        options.startup_delay = Duration::from_secs(60);
        options.poll_interval = Duration::from_secs(5);
    });
    let checks = async {
        sleep(Duration::from_millis(59_900)).await;
        assert_eq!(scheduler.status(id).await.unwrap(), Some(CommandStatus::Pending));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(scheduler.status(id).await.unwrap(), Some(CommandStatus::Completed));
        // No further command is scheduled, so only polling finds this one.
        sleep(Duration::from_secs(20)).await;
        assert_eq!(scheduler.status(late).await.unwrap(), Some(CommandStatus::Completed));
    };
    assert_eq!(processor.run(checks).await.unwrap().handled, 2);
}

/// Holds: CMD-18.
#[test]
fn hooks_run_before_the_first_and_after_the_last_command() {
    on_every_store(async |fixture| {
        fixture.pay([1]).await;
        let bank = Bank::default();
        let done = Arc::new(Semaphore::new(0));
        let noting = {
            let (bank, done) = (bank.clone(), done.clone());
            move |_: Arc<Pay>, _: Execution| {
                bank.note("run");
                done.add_permits(1);
                std::future::ready(Ok::<(), Failure>(()))
            }
        };
        let mediator = Mediator::builder().handle(noting).build().unwrap();
        let (first, last) = (bank.clone(), bank.clone());
        let processor = Processor::new(&fixture.oncebox, &contracts(), &mediator, options(|_| {})).unwrap();
        let processor = processor
            .on_start(move || async move {
                first.note("start");
                Ok(())
            })
            .on_stop(move |stopped| async move { last.note(format!("stop {}", stopped.handled)) });
        processor.run(all_done(&done, 1)).await.unwrap();
        assert_eq!(bank.done(), ["start", "run", "stop 1"]);

        let failing = self::processor(&fixture.oncebox, &bank, options(|_| {}));
        let failing = failing.on_start(|| async { Err("the bank is on fire".into()) });
        let error = failing.run(std::future::pending()).await.unwrap_err();
        assert_eq!(error.to_string(), "the start hook failed");
    });
}

/// The store of the fixture, with fault injection.
fn failing(fixture: &Fixture) -> (Oncebox, FaultPlan) {
    let faults = FaultPlan::default();
    let store = Arc::new(FaultyStore::new(fixture.store.clone(), faults.clone()));
    (Oncebox::builder().clock(fixture.clock.clone()).on(store).unwrap(), faults)
}

/// Holds: CMD-19.
#[test]
fn health_depends_on_passes_and_not_on_handlers() {
    on_every_store(async |fixture| {
        let (oncebox, faults) = failing(&fixture);
        let bank = Bank::failing(1);
        let processor = processor(&oncebox, &bank, options(|_| {}));
        assert_eq!(oncebox.health().await.level(), HealthLevel::Healthy, "before the first pass");
        let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
        assert_eq!(processor.process_pending().await.unwrap().retrying, 1);
        assert_eq!(
            oncebox.health().await.level(),
            HealthLevel::Healthy,
            "failing handlers do not affect health"
        );

        fixture.advance(Duration::from_secs(60));
        for pass in 1..=2 {
            for _ in 0..3 {
                faults.next_of(Operation::Work, InjectedFault::FailBefore);
            }
            processor.process_pending().await.unwrap_err();
            let health = oncebox.health().await;
            let [finding] = &health.findings[..] else { panic!("{:?}", health.findings) };
            assert_eq!((finding.level, finding.subject.as_str()), (HealthLevel::Unhealthy, "commands"));
            let text = format!("{} consecutive work calls failed", pass * 3);
            assert!(finding.text.starts_with(&text), "{finding}");
        }
        assert_eq!(processor.process_pending().await.unwrap().handled, 1);
        assert_eq!(oncebox.health().await.level(), HealthLevel::Healthy, "it has recovered");
        assert_eq!(fixture.status(id).await, CommandStatus::Completed);
    });
}

/// A pass survives a call that fails once; a command leased by a call whose answer was lost is not leased twice.
#[test]
fn a_pass_retries_a_failed_store_call() {
    on_every_store(async |fixture| {
        let (oncebox, faults) = failing(&fixture);
        let bank = Bank::default();
        let processor = processor(&oncebox, &bank, options(|_| {}));
        let ids = fixture.pay(1..=2).await;
        faults.next_of(Operation::Work, InjectedFault::FailAfterCommit);
        faults.next_of(Operation::Work, InjectedFault::Pass);
        faults.next_of(Operation::Work, InjectedFault::FailAfterCommit);
        assert_eq!(processor.process_pending().await.unwrap().handled, 2);
        for id in ids {
            assert_eq!(fixture.record(id).await.attempts, 1);
        }
        assert_eq!(bank.sorted(), ["1 100", "2 100"]);
    });
}

/// Holds: CMD-19.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_failing_or_stalled_loop_is_unhealthy_and_an_idle_one_is_not() {
    let inbox = Paused::new();
    let bank = Bank::default();
    let idle = processor(&inbox.oncebox, &bank, options(|_| {}));
    idle.process_pending().await.unwrap();
    sleep(LONG).await;
    assert!(inbox.oncebox.health().await.is_healthy(), "no pass was requested, and that is not a failure");

    let mut run = Box::pin(processor(&inbox.oncebox, &bank, options(|_| {})).run(std::future::pending()));
    assert!(timeout(Duration::from_secs(10), &mut run).await.is_err(), "it runs until stopped");
    assert!(inbox.oncebox.health().await.is_healthy());
    // First the store fails, then the loop stalls.
    for _ in 0..8 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    assert!(timeout(Duration::from_secs(3), &mut run).await.is_err());
    assert!(
        !inbox.oncebox.health().await.is_healthy(),
        "the loop continues, and health reports the failures"
    );
    assert!(timeout(Duration::from_secs(60), &mut run).await.is_err());
    assert!(inbox.oncebox.health().await.is_healthy(), "it has recovered");
    // The time of its last iteration depends on random pauses; a new command causes an iteration now.
    inbox.oncebox.scheduler(&contracts()).schedule(&pay(1), plain()).await.unwrap();
    assert!(timeout(Duration::ZERO, &mut run).await.is_err());
    tokio::time::advance(Duration::from_secs(31)).await;
    let health = inbox.oncebox.health().await;
    assert_eq!(health.findings[0].subject, "commands");
    assert!(health.findings[0].text.starts_with("has made no progress for 31 s"), "{}", health.findings[0]);
}

/// A processor runs all commands but handles no inbox topics: its maintenance warns about inbox messages without a
/// handler.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_processor_warns_about_inbox_messages_without_a_handler() {
    let (capture, _guard) = Capture::start();
    let inbox = Paused::new();
    inbox.enqueue("orphan", "1").await;
    let processor = processor(&inbox.oncebox, &Bank::default(), options(|_| {}));
    processor.run(sleep(Duration::from_secs(5))).await.unwrap();
    let warned = capture.find(tracing::Level::WARN, &["no handler in this process", "topic=orphan"]);
    assert_eq!(warned.len(), 1);
}
