//! Closed pipes, and no colours outside a terminal.

use std::process::Stdio;

use crate::rig::{oncebox, run};

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child =
        oncebox(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn colours_are_only_used_on_a_terminal() {
    for arguments in [&["stats"][..], &["--help"], &["send", "t"]] {
        let ran = run(arguments);
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
}
