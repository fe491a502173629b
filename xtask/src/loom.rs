//! `cargo xtask loom`: every interleaving of RECV, ACK and SEND on the memory store, in a build of its own.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::test;
use crate::workspace::Workspace;

/// Swaps the locks of the store and of its notifier for loom's.
const FLAGS: &str = "--cfg oncebox_loom";
/// What belongs to no other build stays apart, so that neither makes the other stale.
const TARGET: &str = "target/loom";

pub(crate) const CALL: Call<'_> = Call {
    environment: &[("RUSTFLAGS", FLAGS), ("CARGO_TARGET_DIR", TARGET)],
    arguments: &["test", "-p", "oncebox-store-memory", "--test", "it", "interleavings::"],
};

pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    println!("{CALL}");
    match test::passed(workspace, &CALL)? {
        0 => Err(Failure::new("no test is in `interleavings`; give the module its name back")),
        passed => Ok(format!("loom: {passed} models, every interleaving as promised")),
    }
}
