//! Contracts: the names and versions of stored commands, and how older versions are read.

use std::marker::PhantomData;
use std::sync::Arc;

use oncebox::commands::{
    Command, CommandStatus, Contracted, Contracts, Execution, Mediator, Processor, Scheduler,
};
use oncebox::{ErrorKind, Failure, worker::Growth};
use serde::{Deserialize, Serialize};

use super::kit::{Add, Bank, PAY, Pay, backoff, options, pay, plain};
use crate::fixture::on_every_store;

#[derive(Serialize, Deserialize)]
struct Other;

impl Command for Other {
    type Output = ();
}

fn rejected(contracts: Result<Contracts, oncebox::Error>) -> String {
    let error = contracts.err().expect("the contract is rejected");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

/// Holds: CMD-05.
#[test]
fn a_type_has_one_contract_and_a_contract_one_type() {
    let one = || Contracts::new().register::<Pay>(PAY, 1).unwrap();
    assert!(one().register::<Pay>(PAY, 1).is_ok(), "registering the same contract again is allowed");
    assert!(one().register::<Other>(PAY, 2).is_ok(), "another version is another contract");
    let text = rejected(one().register::<Pay>(PAY, 2));
    assert!(
        text.ends_with(&format!("kit::Pay` is already registered as `{PAY}@1`: a type has one contract"))
    );
    let text = rejected(one().register::<Other>(PAY, 1));
    assert!(text.starts_with(&format!("contract `{PAY}@1` is already registered for command ")), "{text}");
    let text = rejected(one().upcast(PAY, 1, |old: Pay| Ok(old)));
    assert!(text.contains("is already registered"), "{text}");

    for name in ["", " \t", "a\0b", &"x".repeat(241)] {
        assert!(rejected(Contracts::new().register::<Pay>(name, 1)).starts_with("contract name"));
    }
    let text = rejected(Contracts::new().register::<Pay>(PAY, 0));
    assert_eq!(text, "contract version must be greater than zero: start with 1");
}

/// Holds: CMD-05.
#[test]
fn a_command_without_a_contract_is_not_stored() {
    on_every_store(async |fixture| {
        let error = fixture.scheduler().schedule(&Other, plain()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("contracts::Other` is not registered"), "{error}");
        assert_eq!(fixture.commands().await.ready, 0);
    });
}

/// Whether a type meets the bounds of scheduling and registering; their doc tests show that the bounds exist.
struct Schedulable<C>(PhantomData<C>);

trait Otherwise {
    const IS: bool = false;
}

impl<C> Otherwise for Schedulable<C> {}

impl<C: Command<Output = ()>> Schedulable<C> {
    const IS: bool = true;
}

/// Holds: CMD-02.
#[test]
fn only_a_command_without_a_result_can_be_scheduled() {
    const { assert!(Schedulable::<Pay>::IS && !Schedulable::<Add>::IS) };
}

/// Every call that leases, runs or settles, as a trait method of `Scheduler`. An inherent method takes precedence: if
/// there were one, the calls below would resolve to it and would not compile.
trait ProcessorOnly {
    fn claim(&self) -> bool {
        false
    }

    fn work(&self) -> bool {
        false
    }

    fn extend(&self) -> bool {
        false
    }

    fn settle(&self) -> bool {
        false
    }

    fn process_pending(&self) -> bool {
        false
    }
}

impl ProcessorOnly for Scheduler {}

/// The compiler rejects the real calls; the doc tests of `Scheduler` show that.
/// Holds: CMD-07.
#[test]
fn a_scheduler_can_neither_lease_nor_settle() {
    on_every_store(async |fixture| {
        let scheduler = fixture.scheduler();
        let id = scheduler.schedule(&pay(1), plain()).await.unwrap().command_id;
        let calls = [
            scheduler.claim(),
            scheduler.work(),
            scheduler.extend(),
            scheduler.settle(),
            scheduler.process_pending(),
        ];
        assert_eq!(calls, [false; 5]);
        assert_eq!(
            scheduler.status(id).await.unwrap(),
            Some(CommandStatus::Pending),
            "reading does not lease the command"
        );
        assert_eq!(fixture.record(id).await.lease, None);
    });
}

#[derive(Serialize, Deserialize)]
struct Archive<T>(T);

impl<T: Send + Sync + 'static> Command for Archive<T> {
    type Output = ();
}

async fn archive<T: ToString + Send + Sync + 'static>(
    command: Arc<Archive<T>>,
    execution: Execution<Bank>,
) -> Result<(), Failure> {
    execution.state().note(command.0.to_string());
    Ok(())
}

/// Holds: CMD-06.
#[test]
fn each_concrete_type_of_a_generic_command_has_its_own_contract() {
    on_every_store(async |fixture| {
        let contracts = Contracts::new()
            .register::<Archive<String>>("archive.commands.string", 1)
            .and_then(|contracts| contracts.register::<Archive<u64>>("archive.commands.number", 1))
            .unwrap();
        let bank = Bank::default();
        let mediator = Mediator::builder()
            .with_state(bank.clone())
            .handle(archive::<String>)
            .handle(archive::<u64>)
            .build()
            .unwrap();
        let scheduler = fixture.oncebox.scheduler(&contracts);
        let text = scheduler.schedule(&Archive("7".to_owned()), plain()).await.unwrap();
        let number = scheduler.schedule(&Archive(8_u64), plain()).await.unwrap();
        assert_eq!(text.contract.to_string(), "archive.commands.string@1");
        assert_eq!(number.contract.to_string(), "archive.commands.number@1");
        let processor = Processor::new(&fixture.oncebox, &contracts, &mediator, options(|_| {})).unwrap();
        assert_eq!(processor.process_pending().await.unwrap().handled, 2);
        assert_eq!(bank.sorted(), ["7", "8"]);
    });
}

/// The payload of the first version.
#[derive(Serialize, Deserialize)]
struct PayInEuros {
    payment: u64,
    euros: u64,
}

impl Command for PayInEuros {
    type Output = ();
}

/// The payload of the second version.
#[derive(Serialize, Deserialize)]
struct PayInCents {
    payment: u64,
    cents: Option<u64>,
}

/// Upcasts payloads of the first version to the second.
fn first_upcast() -> Contracts {
    let in_cents = |PayInEuros { payment, euros }| Ok(PayInCents { payment, cents: euros.checked_mul(100) });
    Contracts::new().upcast(PAY, 1, in_cents).unwrap()
}

fn require_cents(PayInCents { payment, cents }: PayInCents) -> Result<Pay, Failure> {
    let cents = cents.ok_or_else(|| Failure::dead("amount too large"))?;
    Ok(Pay { payment, cents })
}

/// Holds: CMD-10.
#[test]
fn commands_of_older_versions_are_upcast_one_version_at_a_time() {
    on_every_store(async |fixture| {
        // Commands stored two program versions ago.
        let first = Contracts::new().register::<PayInEuros>(PAY, 1).unwrap();
        let scheduler = fixture.oncebox.scheduler(&first);
        let old = scheduler.schedule(&PayInEuros { payment: 1, euros: 7 }, plain()).await.unwrap();
        let too_old = scheduler.schedule(&PayInEuros { payment: 2, euros: u64::MAX }, plain()).await.unwrap();

        let now = first_upcast()
            .upcast(PAY, 2, require_cents)
            .and_then(|contracts| contracts.register::<Pay>(PAY, 3))
            .unwrap();
        let scheduler = fixture.oncebox.scheduler(&now);
        scheduler.schedule(&pay(3), plain()).await.unwrap();
        let bank = Bank::default();
        let processor = Processor::new(&fixture.oncebox, &now, &bank.mediator(), options(|_| {})).unwrap();
        processor.process_pending().await.unwrap();
        assert_eq!(bank.sorted(), ["1 700", "3 100"]);
        assert_eq!(fixture.status(old.command_id).await, CommandStatus::Completed);
        let dead = fixture.record(too_old.command_id).await;
        assert_eq!(dead.last_error.unwrap().as_str(), "amount too large");
        assert!(matches!(dead.status, CommandStatus::DeadLettered { .. }));
    });
}

/// Holds: CMD-16.
#[test]
fn an_unknown_contract_and_an_unreadable_payload_fail_like_any_other_command() {
    on_every_store(async |fixture| {
        let theirs = Contracts::new().register::<PayInEuros>(PAY, 9).unwrap();
        let unknown = PayInEuros { payment: 1, euros: 1 };
        let unknown = fixture.oncebox.scheduler(&theirs).schedule(&unknown, plain()).await.unwrap();
        // The same contract with another type.
        let theirs = Contracts::new().register::<PayInEuros>(PAY, 2).unwrap();
        let unreadable = PayInEuros { payment: 77_321, euros: 1 };
        let unreadable = fixture.oncebox.scheduler(&theirs).schedule(&unreadable, plain()).await.unwrap();

        let processor = super::kit::processor(
            &fixture.oncebox,
            &Bank::default(),
            options(|options| {
                options.retry.attempts_max = 2;
                options.retry.backoff = backoff(30, Growth::Fixed);
            }),
        );
        assert_eq!(processor.process_pending().await.unwrap().retrying, 2);
        fixture.advance(std::time::Duration::from_millis(29_999));
        assert_eq!(processor.process_pending().await.unwrap(), oncebox::WorkerSummary::default(), "not yet");
        for id in [unknown.command_id, unreadable.command_id] {
            assert!(matches!(fixture.status(id).await, CommandStatus::Failed { attempt: 1, next: Some(_) }));
        }
        fixture.advance(std::time::Duration::from_millis(1));
        assert_eq!(processor.process_pending().await.unwrap().dead, 2);
        let unknown = fixture.record(unknown.command_id).await;
        assert!(unknown.last_error.unwrap().as_str().contains("not registered"));
        let unreadable = fixture.record(unreadable.command_id).await;
        let error = unreadable.last_error.unwrap();
        assert!(error.as_str().contains("payload does not match the type"), "{error}");
        assert!(!error.as_str().contains("77321"), "payloads stay out of errors");
        for status in [unknown.status, unreadable.status] {
            assert_eq!(
                status,
                CommandStatus::DeadLettered { reason: oncebox::message::DeadReason::Exhausted }
            );
        }
    });
}

/// During a rolling upgrade, the processor that has the newer contract may be on another machine.
#[test]
fn unregistered_contracts_can_be_left_to_other_processors() {
    on_every_store(async |fixture| {
        let newer = Contracts::new().register::<PayInEuros>(PAY, 3).unwrap();
        let command = PayInEuros { payment: 1, euros: 1 };
        let left = fixture.oncebox.scheduler(&newer).schedule(&command, plain()).await.unwrap();
        fixture.pay([2]).await;
        let leave = options(|options| options.unregistered = oncebox::worker::Unhandled::Leave);
        let processor = super::kit::processor(&fixture.oncebox, &Bank::default(), leave);
        assert_eq!(processor.process_pending().await.unwrap().handled, 1);
        assert_eq!(fixture.status(left.command_id).await, CommandStatus::Pending);
    });
}

/// A claim names at most 64 topics, and a pass claims from all topics, however small its batch.
#[test]
fn more_contracts_than_fit_in_one_claim_are_all_served() {
    on_every_store(async |fixture| {
        let mut contracts = Contracts::new().register::<Pay>(PAY, 131).unwrap();
        for version in 1..131 {
            contracts = contracts.upcast(PAY, version, |same: Pay| Ok(same)).unwrap();
        }
        let one =
            options(|options| (options.batch, options.unregistered) = (1, oncebox::worker::Unhandled::Leave));
        let bank = Bank::default();
        let processor = Processor::new(&fixture.oncebox, &contracts, &bank.mediator(), one).unwrap();
        for version in [131, 1, 70] {
            let theirs = Contracts::new().register::<Pay>(PAY, version).unwrap();
            fixture.oncebox.scheduler(&theirs).schedule(&pay(u64::from(version)), plain()).await.unwrap();
        }
        for _ in 0..3 {
            assert_eq!(processor.process_pending().await.unwrap().handled, 1);
        }
        assert_eq!(bank.sorted(), ["1 100", "131 100", "70 100"]);
    });
}

impl Contracted for Other {
    const NAME: &'static str = "others";
    const VERSION: u32 = 4;
}

/// Holds: CMD-05.
#[tokio::test(crate = "crate::timed")]
async fn a_processor_rejects_incomplete_contracts() {
    let oncebox = oncebox::Oncebox::open("memory:").await.unwrap();
    let rejected = |contracts: Contracts| {
        let processor = Processor::new(&oncebox, &contracts, &Bank::default().mediator(), options(|_| {}));
        processor.err().expect("the contracts are rejected").to_string()
    };
    let gap = first_upcast().register::<Pay>(PAY, 3).unwrap();
    assert!(
        rejected(gap).contains(&format!("upcaster of `{PAY}@1` leads to a version that is not registered"))
    );
    let unhandled = rejected(Contracts::new().add::<Other>().unwrap());
    assert!(unhandled.contains("contracts::Other` has no handler"), "{unhandled}");
    assert_eq!(rejected(Contracts::new()), "contracts must not be empty: register at least one");
}
