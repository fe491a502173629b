//! Campaigns with processes that share a PostgreSQL server.

use std::process::{Command, Output};

/// Runs a campaign with this process's id as its seed.
fn campaign(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox-torture"));
    command.args(arguments.split_whitespace()).args(["--seed", &std::process::id().to_string()]);
    command.output().expect("the campaign starts")
}

/// Runs a campaign that must pass.
fn passes(arguments: &str) {
    let output = campaign(arguments);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// When workers, senders, connections and the server are killed, nothing that was answered is lost, no message is
/// leased twice at once, and none is delivered after its end was answered.
/// Holds: IBX-013, RULE-05, RULE-13.
#[test]
fn answered_calls_survive_kills_of_all_processes() {
    passes("kill-workers --workers 4 --messages 1000");
}

/// A handler's write is in the database if and only if its message is done, whenever the process is killed.
/// Holds: RULE-01.
#[test]
fn writes_and_acknowledgements_never_disagree() {
    passes("kill-handlers --rounds 8");
}

/// A failover to the replica loses nothing that was answered, and calls are answered again within ten seconds.
/// Holds: RULE-13.
#[test]
fn answered_calls_survive_a_failover() {
    passes("failover");
}

/// Runs a campaign with a planted bug; its error must contain `expected`.
fn fails_with(arguments: &str, expected: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox-torture"));
    let output = command.args(arguments.split_whitespace()).output().expect("the campaign starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let kept = error.lines().last().and_then(|line| line.strip_prefix("the logs are kept in "));
    std::fs::remove_dir_all(kept.expect("the logs are kept")).expect("the logs can be removed");
    assert!(error.contains(expected), "{error}");
}

/// The campaign detects workers that acknowledge under lost leases and log a success.
#[test]
fn fake_acks_are_detected() {
    fails_with("kill-workers --workers 3 --messages 300 --plant stale-ack", "Ack under fence");
}

/// The campaign detects handlers that write outside their transactions.
#[test]
fn writes_outside_transactions_are_detected() {
    fails_with("kill-handlers --rounds 200 --plant strays", "booked and not done");
}
