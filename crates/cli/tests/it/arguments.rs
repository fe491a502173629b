//! Invalid command lines and their error messages.

use crate::rig::run;

#[test]
fn an_invalid_command_line_exits_with_2_and_says_what_is_valid() {
    for (arguments, expected) in [
        (&["send", "t", "--data", "x"][..], "--random-key"),
        (&["send", "t", "--key", "k"], "--data TEXT, --file FILE, or -"),
        (&["send", "t", "--key", "k", "--random-key"], "cannot be used with"),
        (&["send", "t", "--key", "k", "--data", "x", "-"], "cannot be used with"),
        (&["send", "t", "--key", "k", "--data", "x", "--attr", "a"], "name=value"),
        (&["recv", "t", "--wait", "10"], "10s"),
        (&["recv", "t", "--max", "0"], "1..=256"),
        (&["ack"], "DELIVERY"),
        (&["extend", "d"], "--visibility"),
        (&["dlq", "redrive"], "ID"),
        (&["dlq", "redrive", "m", "--all"], "cannot be used with"),
        (&["dlq", "list", "--reason", "fate"], "exhausted"),
        (&["messages", "purge", "m"], "--yes"),
        (&["messages", "list", "--state", "lost"], "processing"),
        (&["explain"], "--key"),
        (&["explain", "--key", "k"], "--topic"),
        (&["ledger", "release", "k"], "--lease-id"),
        (&["stats", "--server", "localhost"], "http://127.0.0.1:7420"),
        (&["stats", "--output", "xml"], "ndjson"),
        (&["completions", "dos"], "bash"),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?} {ran:?}");
        assert!(ran.stderr.contains(expected), "{arguments:?} {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_missing_file_is_reported_before_anything_is_sent() {
    let ran = run(&["send", "t", "--key", "k", "--file", "no/such/file"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no/such/file"), "{}", ran.stderr);
}

#[test]
fn an_invalid_json_payload_is_not_sent() {
    let ran = run(&["send", "t", "--key", "k", "--data", "{", "--json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not JSON"), "{}", ran.stderr);
}

#[test]
fn an_unreachable_server_exits_with_4_and_the_correlation_id() {
    let ran = run(&["stats"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""));
    assert!(
        ran.stderr.contains("is the server running?") && ran.stderr.contains("corr_id"),
        "{}",
        ran.stderr
    );
}

#[test]
fn every_help_text_lists_the_exit_codes() {
    for arguments in [&["--help"][..], &["send", "--help"], &["dlq", "redrive", "--help"], &["demo", "-h"]] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout.contains("4    the server is unreachable"), "{}", ran.stdout);
    }
}
