//! The campaigns, short enough for every test run.

mod postgres;

use std::path::PathBuf;

use oncebox_audit::kill::{Campaign, run};

const CYCLES: u64 = 25;

/// What was answered is there after SIGKILL, also after a second one while the store was being opened.
/// Holds: RULE-13.
#[test]
fn what_was_answered_survives_kill() {
    let directory = std::env::temp_dir().join(format!("oncebox-kill-test-{}", std::process::id()));
    let program = PathBuf::from(env!("CARGO_BIN_EXE_oncebox-torture"));
    match run(&Campaign { program, directory, cycles: CYCLES, seed: u64::from(std::process::id()) }) {
        Ok(closing) => println!("{closing}"),
        Err(fault) => panic!("{fault}"),
    }
}
