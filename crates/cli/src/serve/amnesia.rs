//! Amnesia needs an allocator that overwrites freed memory. A binary has one allocator, so this process executes
//! another binary.

use std::io;
use std::path::PathBuf;

use crate::error::CliError;

const PROGRAM: &str = "oncebox-amnesia";

/// Executes `oncebox-amnesia` in this process with the same arguments; the process id stays the same. Returns only if
/// that fails.
pub(super) fn exec_amnesia() -> CliError {
    let path = std::env::current_exe()
        .map(|own| own.with_file_name(PROGRAM).with_extension(std::env::consts::EXE_EXTENSION));
    let error = match &path {
        Ok(program) => execute(program),
        Err(error) => io::Error::from(error.kind()),
    };
    let program = path.unwrap_or_else(|_| PathBuf::from(PROGRAM));
    CliError::failed(format!(
        "cannot run {} ({error}), which amnesia needs because it overwrites freed memory: install it next to `oncebox`, \
         or turn amnesia off",
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
    io::Error::other("run it directly instead of `oncebox`")
}
