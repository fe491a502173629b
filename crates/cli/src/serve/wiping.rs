//! Amnesia needs an allocator that wipes, and a program has one allocator: so this process becomes another program.

use std::io;
use std::path::PathBuf;

use crate::trouble::Trouble;

const PROGRAM: &str = "oncebox-amnesia";

/// Replaces the program of this process by the one that wipes, with the same arguments; the process keeps its id. Returns only
/// if that fails.
pub(super) fn become_wiping() -> Trouble {
    let beside = std::env::current_exe()
        .map(|own| own.with_file_name(PROGRAM).with_extension(std::env::consts::EXE_EXTENSION));
    let error = match &beside {
        Ok(program) => execute(program),
        Err(error) => io::Error::from(error.kind()),
    };
    let program = beside.unwrap_or_else(|_| PathBuf::from(PROGRAM));
    Trouble::failed(format!(
        "with amnesia the server runs as {}, which overwrites the memory that it frees, and that cannot be run ({error}): \
         install it beside `oncebox`, or turn amnesia off",
        program.display()
    ))
}

#[cfg(unix)]
fn execute(program: &std::path::Path) -> io::Error {
    use std::os::unix::process::CommandExt;
    std::process::Command::new(program).args(std::env::args_os().skip(1)).exec()
}

#[cfg(not(unix))]
fn execute(_: &std::path::Path) -> io::Error {
    io::Error::other("start it instead of `oncebox`")
}
