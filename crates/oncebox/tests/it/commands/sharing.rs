//! Several processors on one store, and what a crash leaves behind.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::commands::{Execution, Mediator, Processor, ProcessorOptions, Scheduler, Status};
use oncebox::{Failure, Oncebox, Owner};
use tokio::sync::{Barrier, Notify};

use super::kit::{Bank, Pay, contracts, options, processor};
use crate::fixture::{Fixture, on_every_store};

/// What the handlers of a test share.
#[derive(Clone)]
struct Hall {
    scheduler: Scheduler,
    /// All commands of the test are in handlers' hands at once.
    full: Arc<Barrier>,
    owners: Arc<Mutex<Vec<(u64, Owner)>>>,
}

async fn meet(command: Arc<Pay>, execution: Execution<Hall>) -> Result<(), Failure> {
    let hall = execution.state();
    hall.full.wait().await;
    let id = execution.command_id().ok_or("it is stored")?;
    let record = hall.scheduler.record(id).await?.ok_or("it is known")?;
    assert_eq!(record.status, Status::Running);
    hall.owners.lock().unwrap().push((command.payment, record.lease.ok_or("it is leased")?.owner));
    Ok(())
}

fn meeting(oncebox: &Oncebox, hall: &Hall, owner: u128) -> Processor {
    let mediator = Mediator::builder().with_state(hall.clone()).handle(meet).build().unwrap();
    let four = |options: &mut ProcessorOptions| {
        options.batch = 4;
        options.owner = Some(Owner::new(owner).unwrap());
    };
    Processor::new(oncebox, &contracts(), &mediator, options(four)).unwrap()
}

/// Holds: CMD-15, CMD-20.
#[test]
fn two_processors_share_the_work_and_never_a_command() {
    on_every_store(async |fixture| {
        fixture.pay(1..=8).await;
        let hall =
            Hall { scheduler: fixture.scheduler(), full: Arc::new(Barrier::new(8)), owners: Arc::default() };
        let [one, two] = [1, 2].map(|owner| meeting(&fixture.oncebox, &hall, owner));
        let (one, two) = tokio::join!(one.process_pending(), two.process_pending());
        assert_eq!((one.unwrap().handled, two.unwrap().handled), (4, 4));
        let owners = hall.owners.lock().unwrap().clone();
        let payments: BTreeSet<_> = owners.iter().map(|(payment, _)| *payment).collect();
        assert_eq!(payments, (1..=8).collect(), "each once");
        let of_one = owners.iter().filter(|(_, owner)| owner.as_u128() == 1).count();
        assert_eq!((of_one, owners.len()), (4, 8));
    });
}

/// Holds: CMD-15, CMD-20.
#[test]
fn a_crashed_processors_command_is_taken_over_after_its_lease() {
    on_every_store(async |fixture| {
        // A minute if not set.
        taken_over_after(&fixture, 60, options(|_| {})).await;
        taken_over_after(&fixture, 200, options(|options| options.lease = Duration::from_secs(200))).await;
    });
}

async fn taken_over_after(fixture: &Fixture, lease: u64, options: ProcessorOptions) {
    let [id] = fixture.pay([1]).await[..] else { unreachable!("one was scheduled") };
    let begun = Arc::new(Notify::new());
    let stuck = {
        let begun = begun.clone();
        move |_: Arc<Pay>, _: Execution| {
            let begun = begun.clone();
            async move {
                begun.notify_one();
                std::future::pending::<Result<(), Failure>>().await
            }
        }
    };
    let mediator = Mediator::builder().handle(stuck).build().unwrap();
    let crashing = Processor::new(&fixture.oncebox, &contracts(), &mediator, options.clone()).unwrap();
    tokio::select! {
        biased;
        _ = crashing.process_pending() => unreachable!("its handler never ends"),
        () = begun.notified() => {}
    }
    // Whoever stops a pass in the middle gives nothing back.
    assert_eq!(fixture.status(id).await, Status::Running);
    let bank = Bank::default();
    let next = processor(&fixture.oncebox, &bank, options);
    fixture.advance(Duration::from_millis(lease * 1_000 - 1));
    assert_eq!(next.process_pending().await.unwrap().handled, 0, "the lease still stands");
    fixture.advance(Duration::from_millis(1));
    assert_eq!(fixture.status(id).await, Status::Failed { attempt: 1, next: None });
    assert_eq!(next.process_pending().await.unwrap().handled, 1);
    let record = fixture.record(id).await;
    assert_eq!((record.status, record.attempts), (Status::Completed, 2));
}
