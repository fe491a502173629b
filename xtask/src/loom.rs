//! `cargo xtask loom`: tests every interleaving of RECV, ACK and SEND on the memory store, in a separate build.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::test;
use crate::workspace::Workspace;

/// Replaces the locks of the store and of its notifier with loom's.
const FLAGS: &str = "--cfg oncebox_loom";
/// A separate directory, so that this build and ordinary builds do not invalidate each other.
const TARGET: &str = "target/loom";

pub(crate) const CALL: Call<'_> = Call {
    environment: &[("RUSTFLAGS", FLAGS), ("CARGO_TARGET_DIR", TARGET)],
    arguments: &["test", "-p", "oncebox-store-memory", "--test", "it", "interleavings::"],
};

pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    println!("{CALL}");
    match test::passed(workspace, &CALL)? {
        0 => Err(Failure::new("the module `interleavings` has no tests: restore its name")),
        passed => Ok(format!("loom: {passed} models, all interleavings passed")),
    }
}
