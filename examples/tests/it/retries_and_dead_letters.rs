//! The `retries_and_dead_letters` example: runs to its end and prints the expected lines.

use std::process::Command;

#[test]
fn dead_letters_are_listed_purged_and_redriven() {
    let output = Command::new(env!("CARGO_BIN_EXE_retries_and_dead_letters")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "  gives-up: Some(Failed), the account is locked",
        "  never-works: Some(Exhausted), 503: closed",
        "Erased: 1",
        "Redriven: 2",
        "  never-works (delivery 4): paid",
        "Result: 5 done, 0 dead",
    ] {
        assert!(text.lines().any(|found| found == line), "no line `{line}` in:\n{text}");
    }
}
