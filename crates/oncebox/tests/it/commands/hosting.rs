//! The loop: when it looks, when it starts and stops, and how health sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::commands::{Execution, Mediator, Processor, ProcessorOptions, Status};
use oncebox::{Failure, Level, Oncebox, Stopped};
use oncebox_testkit::faulty::{Fault, FaultPlan, FaultyStore, Operation};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::kit::{Bank, Pay, contracts, options, pay, plain, processor};
use crate::capture::Capture;
use crate::fixture::{Fixture, Paused, on_every_store};

/// Longer than any test may take: what waits for it has failed.
const LONG: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(120);

/// A processor that gives a permit for every command that it has run.
fn counting(oncebox: &Oncebox, done: &Arc<Semaphore>, set: impl FnOnce(&mut ProcessorOptions)) -> Processor {
    let count = async |_: Arc<Pay>, execution: Execution<Arc<Semaphore>>| {
        execution.state().add_permits(1);
        Ok::<(), Failure>(())
    };
    let mediator = Mediator::builder().with_state(done.clone()).handle(count).build().unwrap();
    Processor::new(oncebox, &contracts(), &mediator, options(set)).unwrap()
}

async fn all_done(done: &Semaphore, count: u32) {
    timeout(PATIENCE, done.acquire_many(count)).await.expect("they are run").unwrap().forget();
}

/// Holds: CMD-18.
#[test]
fn a_full_batch_is_followed_by_the_next_at_once_and_what_comes_later_wakes() {
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
        let stopped = timeout(PATIENCE, processor.run(scheduled)).await.expect("it stops").unwrap();
        assert_eq!(stopped.handled, 7);
    });
}

/// Holds: CMD-18.
#[test]
fn a_disabled_loop_runs_nothing_and_one_that_is_stopped_during_its_delay_neither() {
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
            timeout(PATIENCE, processor.run(tokio::task::yield_now()))
        };
        let disabled = run(|options| options.enabled = false, hooks.clone()).await;
        assert_eq!(disabled.expect("it stops").unwrap(), Stopped::default());
        let delayed = run(|options| options.startup_delay = LONG, hooks.clone()).await;
        assert_eq!(delayed.expect("it stops").unwrap(), Stopped::default());
        assert_eq!((hooks.load(Ordering::SeqCst), fixture.status(id).await), (0, Status::Pending));
    });
}

/// Holds: CMD-18.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn the_start_up_delay_and_the_poll_interval_are_kept() {
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
    let looking = async {
        sleep(Duration::from_millis(59_900)).await;
        assert_eq!(scheduler.status(id).await.unwrap(), Some(Status::Pending));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(scheduler.status(id).await.unwrap(), Some(Status::Completed));
        // Nothing is scheduled any more; the loop looks by itself.
        sleep(Duration::from_secs(20)).await;
        assert_eq!(scheduler.status(late).await.unwrap(), Some(Status::Completed));
    };
    assert_eq!(processor.run(looking).await.unwrap().handled, 2);
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

        let refusing = self::processor(&fixture.oncebox, &bank, options(|_| {}));
        let refusing = refusing.on_start(|| async { Err("the bank is on fire".into()) });
        let refused = refusing.run(std::future::pending()).await.unwrap_err();
        assert_eq!(refused.to_string(), "the start hook failed");
    });
}

/// The same store, failing on demand.
fn failing(fixture: &Fixture) -> (Oncebox, FaultPlan) {
    let faults = FaultPlan::default();
    let store = Arc::new(FaultyStore::new(fixture.store.clone(), faults.clone()));
    (Oncebox::builder().clock(fixture.clock.clone()).on(store).unwrap(), faults)
}

/// Holds: CMD-19.
#[test]
fn health_follows_the_passes_and_not_the_handlers() {
    on_every_store(async |fixture| {
        let (oncebox, faults) = failing(&fixture);
        let bank = Bank::failing(1);
        let processor = processor(&oncebox, &bank, options(|_| {}));
        assert_eq!(oncebox.health().await.level(), Level::Healthy, "before the first pass");
        let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
        assert_eq!(processor.process_pending().await.unwrap().retrying, 1);
        assert_eq!(oncebox.health().await.level(), Level::Healthy, "handlers do not matter");

        fixture.advance(Duration::from_secs(60));
        for pass in 1..=2 {
            for _ in 0..3 {
                faults.next_of(Operation::Work, Fault::FailBefore);
            }
            processor.process_pending().await.unwrap_err();
            let health = oncebox.health().await;
            let [finding] = &health.findings[..] else { panic!("{:?}", health.findings) };
            assert_eq!((finding.level, finding.subject.as_str()), (Level::Unhealthy, "commands"));
            let text = format!("{} calls of work failed in a row", pass * 3);
            assert!(finding.text.starts_with(&text), "{finding}");
        }
        assert_eq!(processor.process_pending().await.unwrap().handled, 1);
        assert_eq!(oncebox.health().await.level(), Level::Healthy, "it has recovered");
        assert_eq!(fixture.status(id).await, Status::Completed);
    });
}

/// A pass survives a call that fails once; what was leased by a lost answer is not leased twice.
#[test]
fn a_pass_repeats_a_call_that_failed() {
    on_every_store(async |fixture| {
        let (oncebox, faults) = failing(&fixture);
        let bank = Bank::default();
        let processor = processor(&oncebox, &bank, options(|_| {}));
        let ids = fixture.pay(1..=2).await;
        faults.next_of(Operation::Work, Fault::FailAfterCommit);
        faults.next_of(Operation::Work, Fault::Pass);
        faults.next_of(Operation::Work, Fault::FailAfterCommit);
        assert_eq!(processor.process_pending().await.unwrap().handled, 2);
        for id in ids {
            assert_eq!(fixture.record(id).await.attempts, 1);
        }
        assert_eq!(bank.sorted(), ["1 100", "2 100"]);
    });
}

/// Holds: CMD-19.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_loop_that_fails_or_stalls_is_unhealthy_and_one_that_rests_is_not() {
    let inbox = Paused::new();
    let bank = Bank::default();
    let resting = processor(&inbox.oncebox, &bank, options(|_| {}));
    resting.process_pending().await.unwrap();
    sleep(LONG).await;
    assert!(inbox.oncebox.health().await.is_healthy(), "nobody asks for a pass, and that is no fault");

    let mut run = Box::pin(processor(&inbox.oncebox, &bank, options(|_| {})).run(std::future::pending()));
    assert!(timeout(Duration::from_secs(10), &mut run).await.is_err(), "it runs for ever");
    assert!(inbox.oncebox.health().await.is_healthy());
    // Until something goes wrong: first in the store, then with its thread.
    for _ in 0..8 {
        inbox.faults.next_of(Operation::Work, Fault::FailBefore);
    }
    assert!(timeout(Duration::from_secs(3), &mut run).await.is_err());
    assert!(!inbox.oncebox.health().await.is_healthy(), "it goes on, and says so");
    assert!(timeout(Duration::from_secs(60), &mut run).await.is_err());
    assert!(inbox.oncebox.health().await.is_healthy(), "it has recovered");
    // When it turned last, its random pauses decide; what is scheduled makes it turn now.
    inbox.oncebox.scheduler(&contracts()).schedule(&pay(1), plain()).await.unwrap();
    assert!(timeout(Duration::ZERO, &mut run).await.is_err());
    tokio::time::advance(Duration::from_secs(31)).await;
    let health = inbox.oncebox.health().await;
    assert_eq!(health.findings[0].subject, "commands");
    assert!(health.findings[0].text.starts_with("has not turned for 31 s"), "{}", health.findings[0]);
}

/// A processor takes whatever is scheduled, and still handles nothing of the inbox: its upkeep warns of what nobody does.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn messages_without_a_handler_are_warned_about_beside_a_processor() {
    let (capture, _guard) = Capture::start();
    let inbox = Paused::new();
    inbox.enqueue("orphan", "1").await;
    let processor = processor(&inbox.oncebox, &Bank::default(), options(|_| {}));
    processor.run(sleep(Duration::from_secs(5))).await.unwrap();
    let warned = capture.find(tracing::Level::WARN, &["no worker of this process handles", "topic=orphan"]);
    assert_eq!(warned.len(), 1);
}
