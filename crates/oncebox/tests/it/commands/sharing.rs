//! Several processors on one store, and takeover after a crash.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::commands::{CommandStatus, Execution, Mediator, Processor, ProcessorOptions, Scheduler};
use oncebox::{Failure, Oncebox, queue::Owner};
use tokio::sync::{Barrier, Notify};

use super::kit::{Bank, Pay, contracts, options, processor};
use crate::fixture::{Fixture, on_every_store};

/// State that the handlers of a test share.
#[derive(Clone)]
struct SharedState {
    scheduler: Scheduler,
    /// Opens when handlers of all commands run at the same time.
    all_running: Arc<Barrier>,
    owners: Arc<Mutex<Vec<(u64, Owner)>>>,
}

async fn record_owner(command: Arc<Pay>, execution: Execution<SharedState>) -> Result<(), Failure> {
    let state = execution.state();
    state.all_running.wait().await;
    let id = execution.command_id().ok_or("the command is stored")?;
    let record = state.scheduler.record(id).await?.ok_or("the command is known")?;
    assert_eq!(record.status, CommandStatus::Running);
    state.owners.lock().unwrap().push((command.payment, record.lease.ok_or("the command is leased")?.owner));
    Ok(())
}

fn recording(oncebox: &Oncebox, state: &SharedState, owner: u128) -> Processor {
    let mediator = Mediator::builder().with_state(state.clone()).handle(record_owner).build().unwrap();
    let four = |options: &mut ProcessorOptions| {
        options.batch = 4;
        options.owner = Some(Owner::new(owner).unwrap());
    };
    Processor::new(oncebox, &contracts(), &mediator, options(four)).unwrap()
}

/// Holds: CMD-15, CMD-20.
#[test]
fn two_processors_share_the_work_but_never_a_command() {
    on_every_store(async |fixture| {
        fixture.pay(1..=8).await;
        let state = SharedState {
            scheduler: fixture.scheduler(),
            all_running: Arc::new(Barrier::new(8)),
            owners: Arc::default(),
        };
        let [one, two] = [1, 2].map(|owner| recording(&fixture.oncebox, &state, owner));
        let (one, two) = tokio::join!(one.process_pending(), two.process_pending());
        assert_eq!((one.unwrap().handled, two.unwrap().handled), (4, 4));
        let owners = state.owners.lock().unwrap().clone();
        let payments: BTreeSet<_> = owners.iter().map(|(payment, _)| *payment).collect();
        assert_eq!(payments, (1..=8).collect(), "each command runs once");
        let of_one = owners.iter().filter(|(_, owner)| owner.as_u128() == 1).count();
        assert_eq!((of_one, owners.len()), (4, 8));
    });
}

/// Holds: CMD-15, CMD-20.
#[test]
fn a_crashed_processors_command_is_taken_over_after_its_lease() {
    on_every_store(async |fixture| {
        // The default lease is one minute.
        taken_over_after(&fixture, 60, options(|_| {})).await;
        taken_over_after(&fixture, 200, options(|options| options.lease = Duration::from_secs(200))).await;
    });
}

async fn taken_over_after(fixture: &Fixture, lease: u64, options: ProcessorOptions) {
    let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
    let started = Arc::new(Notify::new());
    let stuck = {
        let started = started.clone();
        move |_: Arc<Pay>, _: Execution| {
            let started = started.clone();
            async move {
                started.notify_one();
                std::future::pending::<Result<(), Failure>>().await
            }
        }
    };
    let mediator = Mediator::builder().handle(stuck).build().unwrap();
    let crashing = Processor::new(&fixture.oncebox, &contracts(), &mediator, options.clone()).unwrap();
    tokio::select! {
        biased;
        _ = crashing.process_pending() => unreachable!("its handler never returns"),
        () = started.notified() => {}
    }
    // A pass that is dropped midway does not release its commands.
    assert_eq!(fixture.status(id).await, CommandStatus::Running);
    let bank = Bank::default();
    let next = processor(&fixture.oncebox, &bank, options);
    fixture.advance(Duration::from_millis(lease * 1_000 - 1));
    assert_eq!(next.process_pending().await.unwrap().handled, 0, "the lease has not ended");
    fixture.advance(Duration::from_millis(1));
    assert_eq!(fixture.status(id).await, CommandStatus::Failed { attempt: 1, next: None });
    assert_eq!(next.process_pending().await.unwrap().handled, 1);
    let record = fixture.record(id).await;
    assert_eq!((record.status, record.attempts), (CommandStatus::Completed, 2));
}
