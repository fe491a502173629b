//! The campaigns, in versions short enough for every test run.

mod postgres;

use std::path::PathBuf;

use oncebox_audit::kill::{KillCampaign, run};

const CYCLES: u64 = 25;

/// Everything that was answered survives a SIGKILL, and a second SIGKILL while the store is being opened.
/// Holds: RULE-13.
#[test]
fn answered_calls_survive_kill() {
    let directory = std::env::temp_dir().join(format!("oncebox-kill-test-{}", std::process::id()));
    let program = PathBuf::from(env!("CARGO_BIN_EXE_oncebox-torture"));
    match run(&KillCampaign { program, directory, cycles: CYCLES, seed: u64::from(std::process::id()) }) {
        Ok(summary) => println!("{summary}"),
        Err(violation) => panic!("{violation}"),
    }
}
