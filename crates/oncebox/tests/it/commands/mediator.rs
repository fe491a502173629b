//! Sending: a command runs through its handlers at once.

use std::sync::Arc;

use oncebox::commands::{Execution, InboxCommand, Mediator};
use oncebox::{Failure, worker::FailureAction};

use super::kit::{Add, Bank, Pay, contracts, pay, plain};
use crate::fixture::on_every_store;

type Noting = Execution<Bank>;

async fn check(command: Arc<Pay>, execution: Noting) -> Result<(), Failure> {
    execution.state().note(format!("before {}", command.payment));
    if command.payment == 0 { Err("no such payment".into()) } else { Ok(()) }
}

async fn book(command: Arc<Pay>, execution: Noting) -> Result<(), Failure> {
    execution.state().note(format!("handle {}", command.payment));
    execution.state().maybe_fail()?;
    Ok(())
}

async fn notify(command: Arc<Pay>, execution: Noting) -> Result<(), Failure> {
    execution.state().note(format!("after {}", command.payment));
    Ok(())
}

async fn pass_on(_: Arc<Pay>, execution: Noting, failure: Failure) -> Result<(), Failure> {
    execution.state().note(format!("error {}", failure.text()));
    Err(failure)
}

/// Holds: CMD-10.
#[tokio::test(crate = "crate::timed")]
async fn handlers_run_in_order_and_see_the_same_state() {
    let bank = Bank::default();
    let mediator = Mediator::builder()
        .with_state(bank.clone())
        .after(notify)
        .before(check)
        .handle(book)
        .before(async |_: Arc<Pay>, execution: Noting| {
            execution.state().note("before, too");
            Ok::<(), Failure>(())
        })
        .on_error(pass_on)
        .build()
        .unwrap();
    mediator.send(pay(1)).await.unwrap();
    assert_eq!(bank.done(), ["before 1", "before, too", "handle 1", "after 1"]);

    let failure = mediator.send(pay(0)).await.unwrap_err();
    assert_eq!(failure.text(), "no such payment");
    assert_eq!(
        bank.done()[4..],
        ["before 0", "error no such payment"],
        "later handlers do not run after a failure"
    );
}

/// Holds: CMD-10.
#[tokio::test(crate = "crate::timed")]
async fn an_error_handler_recovers_replaces_or_passes_on_the_failure() {
    let bank = Bank::failing(u32::MAX);
    let builder = || Mediator::builder().with_state(bank.clone()).handle(book).on_error(pass_on);
    let failure = builder().build().unwrap().send(pay(1)).await.unwrap_err();
    assert_eq!(failure.text(), "std::io::error::Error: the bank is closed");
    let error = failure.error().and_then(|error| error.downcast_ref::<std::io::Error>());
    assert!(error.is_some(), "the caller can inspect the original error");

    let replace = async |_: Arc<Pay>, _: Noting, _: Failure| Err(Failure::dead("closed for good"));
    let seen = async |_: Arc<Pay>, execution: Noting, failure: Failure| {
        execution.state().note(failure.text());
        Err(failure)
    };
    let failure = builder().on_error(replace).on_error(seen).build().unwrap().send(pay(2)).await.unwrap_err();
    assert_eq!((failure.action(), failure.text()), (FailureAction::Dead, "closed for good"));
    assert_eq!(
        bank.done().last().unwrap(),
        "closed for good",
        "the next error handler sees the replaced failure"
    );

    let swallow = async |_: Arc<Pay>, _: Noting, _: Failure| Ok::<(), Failure>(());
    let never =
        async |_: Arc<Pay>, _: Noting, _: Failure| -> Result<(), Failure> { unreachable!("nothing failed") };
    builder().on_error(swallow).on_error(never).build().unwrap().send(pay(3)).await.unwrap();
}

#[tokio::test(crate = "crate::timed")]
async fn a_command_returns_the_output_of_its_handler_or_error_handler() {
    let add = async |command: Arc<Add>, _: Execution| command.0.checked_add(command.1).ok_or("too much");
    let most = async |_: Arc<Add>, _: Execution, _: Failure| Ok::<_, Failure>(u64::MAX);
    let mediator = Mediator::builder().handle(add).on_error(most).build().unwrap();
    assert_eq!(mediator.send(Add(2, 3)).await.unwrap(), 5);
    assert_eq!(mediator.send(Add(u64::MAX, 1)).await.unwrap(), u64::MAX);
}

/// Holds: CMD-10.
#[tokio::test(crate = "crate::timed")]
async fn a_command_has_one_handler() {
    let mediator = Mediator::builder().with_state(Bank::default()).before(check).build().unwrap();
    let failure = mediator.send(pay(1)).await.unwrap_err();
    assert!(failure.text().contains("kit::Pay` has no handler: add one"), "{}", failure.text());
    let twice = Mediator::builder().with_state(Bank::default()).handle(book).handle(notify).build();
    let error = twice.err().unwrap().to_string();
    assert!(error.contains("kit::Pay` has two handlers"), "{error}");
}

impl InboxCommand for Pay {}

/// Code that needs a schedulable command can use the marker as a bound.
fn reviewed<C: InboxCommand>(command: C) -> C {
    command
}

/// Whatever its type, sending a command runs it and stores nothing; scheduling stores it and runs nothing.
/// Holds: CMD-01, CMD-07, CMD-13.
#[test]
fn sending_runs_a_command_and_scheduling_stores_it() {
    on_every_store(async |fixture| {
        let bank = Bank::default();
        bank.mediator().send(reviewed(pay(1))).await.unwrap();
        let counts = fixture.commands().await;
        assert_eq!((bank.done(), counts.ready + counts.done), (vec!["1 100".to_owned()], 0));

        let scheduler = fixture.oncebox.scheduler(&contracts());
        let receipt = scheduler.schedule(&reviewed(pay(2)), plain()).await.unwrap();
        let stored = fixture.record(receipt.command_id).await;
        assert_eq!((bank.done().len(), fixture.commands().await.ready), (1, 1));
        assert_eq!((stored.attempts, stored.lease), (0, None), "scheduling does not lease the command");
    });
}
