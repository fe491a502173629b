//! `oncebox demo`: its summary matches its event lines, and nothing is left behind.
#![cfg(unix)]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::rig::oncebox;

fn demo(directory: &Path) -> Command {
    let mut command = oncebox(&["demo"]);
    command.env("TMPDIR", directory);
    command
}

/// Neither a file nor a process: a leftover process would have the directory in its command line.
fn nothing_is_left(directory: &TempDir) -> bool {
    let processes = Command::new("ps").args(["-A", "-o", "args"]).output().expect("ps runs").stdout;
    let processes = String::from_utf8_lossy(&processes);
    let is_empty = fs::read_dir(directory.path()).expect("the directory can be read").next().is_none();
    is_empty && !processes.contains(directory.path().to_str().expect("the path is text"))
}

/// The event lines and the summary.
struct DemoOutput {
    /// Actor, action, message.
    events: Vec<(String, String, String)>,
    summary: Vec<String>,
}

impl DemoOutput {
    fn read(output: &Output) -> Self {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout.clone()).expect("the output is text");
        assert!(!text.contains('\u{1b}'), "plain lines have no escapes");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "no line is wider than 100 columns");
        let (events, summary) = text.split_once("\n\n").expect("an empty line before the summary");
        let column = |line: &str, from: usize, to: usize| -> String {
            let cut: String = line.chars().skip(from).take(to - from).collect();
            cut.trim().to_owned()
        };
        // Time, actor, action, source and id are in fixed columns.
        let row = |line: &str| (column(line, 10, 18), column(line, 20, 31), column(line, 33, 54));
        Self {
            events: events.lines().map(row).collect(),
            summary: summary.lines().map(str::to_owned).collect(),
        }
    }

    fn count(&self, actions: &[&str]) -> usize {
        self.events.iter().filter(|(_, action, _)| actions.contains(&action.as_str())).count()
    }

    /// A number in the summary.
    fn sum(&self, name: &str) -> usize {
        let line = self.summary.iter().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).expect(name)
    }
}

#[test]
fn the_summary_matches_the_event_lines() {
    let directory = TempDir::new().unwrap();
    // The server of the demo ignores the user's settings.
    let variable = ("ONCEBOX__LISTEN", "nowhere");
    let output = demo(directory.path())
        .env(variable.0, variable.1)
        .args(["--plain", "--messages", "16", "--seed", "5"])
        .output()
        .unwrap();
    let output = DemoOutput::read(&output);
    for (name, actions) in [
        ("accepted", &["accepted"][..]),
        ("duplicates", &["duplicate"]),
        ("refused", &["refused"]),
        ("deliveries", &["started", "retried", "took over"]),
        ("retried", &["retried"]),
        ("taken over", &["took over"]),
        ("dead", &["dead"]),
        ("redriven", &["redrove"]),
        ("handled", &["done"]),
    ] {
        assert_eq!(output.sum(name), output.count(actions), "{name}");
    }
    assert_eq!(output.sum("accepted") + output.sum("duplicates") + output.sum("refused"), 16);
    assert_eq!(output.sum("accepted"), output.sum("handled"));
    assert_eq!(output.sum("dead"), output.sum("redriven"));
    assert_eq!(output.sum("refused"), 1, "one call conflicts with another");
    for action in ["crashed", "killed", "restarted"] {
        assert_eq!(output.count(&[action]), 1, "{action}");
    }
    assert!(output.sum("taken over") >= 1, "the messages of the crashed worker are taken over");
    assert!(output.sum("dead") >= 3, "three cannot be handled before the bug is fixed");
    assert!(
        output.summary.iter().any(|line| line.contains("It became a dead letter at")),
        "one history is shown"
    );
    assert!(output.summary.last().unwrap().contains("None lost"));
    assert!(nothing_is_left(&directory));
}

#[test]
fn every_accepted_message_is_done_once() {
    let directory = TempDir::new().unwrap();
    let output = demo(directory.path()).args(["--messages", "60", "--seed", "6"]).output().unwrap();
    let output = DemoOutput::read(&output);
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for (_, action, message) in &output.events {
        match action.as_str() {
            "accepted" => assert!(ends.insert(message, 0).is_none(), "{message} is accepted twice"),
            "done" => *ends.get_mut(message.as_str()).expect("accepted before it is done") += 1,
            _ => {}
        }
    }
    assert_eq!(ends.len(), output.sum("accepted"));
    assert!(ends.values().all(|ends| *ends == 1), "{ends:?}");
}

#[test]
fn a_port_is_used_where_the_socket_path_would_be_too_long() {
    let directory = TempDir::new().unwrap();
    let deep = directory.path().join("deep".repeat(30));
    fs::create_dir(&deep).unwrap();
    let output = DemoOutput::read(&demo(&deep).args(["--plain", "--messages", "16"]).output().unwrap());
    assert!(output.summary.last().unwrap().contains("None lost"));
    fs::remove_dir(&deep).expect("the directory is empty");
    assert!(nothing_is_left(&directory));
}

#[test]
fn an_invalid_count_exits_with_code_2() {
    let directory = TempDir::new().unwrap();
    let output = demo(directory.path()).args(["--messages", "3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("16..=1000"));
}

#[test]
fn a_missing_temporary_directory_is_reported_with_a_remedy() {
    let directory = TempDir::new().unwrap();
    let output = demo(&directory.path().join("missing")).arg("--plain").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("set TMPDIR"));
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for signal in ["-INT", "-HUP"] {
        let directory = TempDir::new().unwrap();
        let mut demo = demo(directory.path()).arg("--plain").stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(demo.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        let sent = Command::new("kill").args([signal, &demo.id().to_string()]).status().unwrap();
        assert!(sent.success());
        out.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(demo.wait().unwrap().code(), Some(130));
        assert!(nothing_is_left(&directory));
    }
}

#[test]
fn a_closed_pipe_ends_the_demo() {
    let directory = TempDir::new().unwrap();
    let mut demo = demo(directory.path()).arg("--plain").stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(nothing_is_left(&directory));
}
