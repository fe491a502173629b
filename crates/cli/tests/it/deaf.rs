//! Readers that go away, and colours that nobody wants.

use std::process::Stdio;

use crate::rig::{oncebox, run};

#[test]
fn a_reader_that_goes_away_is_no_trouble() {
    let mut child =
        oncebox(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn there_are_no_colours_but_on_a_terminal() {
    for arguments in [&["stats"][..], &["--help"], &["send", "t"]] {
        let ran = run(arguments);
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
}
