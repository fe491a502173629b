//! Processes that share a PostgreSQL.

use std::process::{Command, Output};

/// Runs a campaign from a seed of this run's own.
fn campaign(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox-torture"));
    command.args(arguments.split_whitespace()).args(["--seed", &std::process::id().to_string()]);
    command.output().expect("the campaign starts")
}

/// Runs a campaign that must find nothing.
fn clean(arguments: &str) {
    let output = campaign(arguments);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whatever becomes of workers, senders, connections and the server: nothing answered is lost, nothing is held twice at once,
/// nothing comes after its answered end.
/// Holds: IBX-013, RULE-05, RULE-13.
#[test]
fn what_was_answered_survives_kills_of_everybody() {
    clean("kill-workers --workers 4 --messages 1000");
}

/// What a handler wrote is there if its message is done, and only then, whenever it is killed.
/// Holds: RULE-01.
#[test]
fn writes_and_acknowledgements_never_disagree() {
    clean("kill-handlers --rounds 8");
}

/// Nothing answered is lost with a primary whose replica takes over, and somebody is answered within ten seconds.
/// Holds: RULE-13.
#[test]
fn a_replica_takes_over_with_all_that_was_answered() {
    clean("failover");
}

/// Runs a campaign with a fault in it; what is told must contain this.
fn found(arguments: &str, expected: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox-torture"));
    let output = command.args(arguments.split_whitespace()).output().expect("the campaign starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let left = told.lines().last().and_then(|line| line.strip_prefix("what was written is left in "));
    std::fs::remove_dir_all(left.expect("what was written is kept")).expect("and can be removed");
    assert!(told.contains(expected), "{told}");
}

/// The judge is not blind: workers that acknowledge what they have lost, and say that it counts, are found out.
#[test]
fn workers_that_lie_are_found_out() {
    found("kill-workers --workers 3 --messages 300 --plant stale-ack", "Ack under");
}

/// Handlers that write beside their transactions are found out.
#[test]
fn handlers_that_stray_are_found_out() {
    found("kill-handlers --rounds 200 --plant strays", "booked and not done");
}
