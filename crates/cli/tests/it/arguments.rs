//! Command lines that are wrong, and what is said about them.

use crate::rig::run;

#[test]
fn a_wrong_command_line_is_code_2_and_says_what_is_right() {
    for (arguments, told) in [
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
        assert!(ran.stderr.contains(told), "{arguments:?} {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_told_before_anything_is_sent() {
    let ran = run(&["send", "t", "--key", "k", "--file", "no/such/file"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no/such/file"), "{}", ran.stderr);
}

#[test]
fn a_payload_that_is_no_json_is_not_sent_as_json() {
    let ran = run(&["send", "t", "--key", "k", "--data", "{", "--json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not JSON"), "{}", ran.stderr);
}

#[test]
fn a_server_out_of_reach_is_code_4_with_the_id_of_the_call() {
    let ran = run(&["stats"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""));
    assert!(
        ran.stderr.contains("is the server running?") && ran.stderr.contains("corr_id"),
        "{}",
        ran.stderr
    );
}

#[test]
fn every_help_tells_the_exit_codes() {
    for arguments in [&["--help"][..], &["send", "--help"], &["dlq", "redrive", "--help"], &["demo", "-h"]] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout.contains("4    the server is out of reach"), "{}", ran.stdout);
    }
}
