//! `oncebox demo`: what it tells at the end is what it told on the way, and nothing stays behind.
#![cfg(unix)]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::rig::oncebox;

fn demo(home: &Path) -> Command {
    let mut command = oncebox(&["demo"]);
    command.env("TMPDIR", home);
    command
}

/// Neither a file nor a process: one that is left would have the directory in its command line.
fn nothing_is_left(home: &TempDir) -> bool {
    let processes = Command::new("ps").args(["-A", "-o", "args"]).output().expect("ps runs").stdout;
    let processes = String::from_utf8_lossy(&processes);
    let is_empty = fs::read_dir(home.path()).expect("the directory can be read").next().is_none();
    is_empty && !processes.contains(home.path().to_str().expect("the path is text"))
}

/// The lines of the story, and what came after them.
struct Told {
    /// Who, what, which message.
    story: Vec<(String, String, String)>,
    closing: Vec<String>,
}

impl Told {
    fn read(output: &Output) -> Self {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout.clone()).expect("the output is text");
        assert!(!text.contains('\u{1b}'), "plain lines have no escapes");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "no line is wider than 100 columns");
        let (story, closing) = text.split_once("\n\n").expect("an empty line before the summary");
        let column = |line: &str, from: usize, to: usize| -> String {
            let cut: String = line.chars().skip(from).take(to - from).collect();
            cut.trim().to_owned()
        };
        // Time, who, what, source and id stand in columns.
        let row = |line: &str| (column(line, 10, 18), column(line, 20, 31), column(line, 33, 54));
        Self {
            story: story.lines().map(row).collect(),
            closing: closing.lines().map(str::to_owned).collect(),
        }
    }

    fn count(&self, whats: &[&str]) -> usize {
        self.story.iter().filter(|(_, what, _)| whats.contains(&what.as_str())).count()
    }

    /// A number of the summary.
    fn sum(&self, name: &str) -> usize {
        let line = self.closing.iter().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).expect(name)
    }
}

#[test]
fn the_summary_adds_up_what_the_lines_told() {
    let home = TempDir::new().unwrap();
    // Settings of the user's are not for the server of the demo.
    let variable = ("ONCEBOX__LISTEN", "nowhere");
    let output = demo(home.path())
        .env(variable.0, variable.1)
        .args(["--plain", "--messages", "16", "--seed", "5"])
        .output()
        .unwrap();
    let told = Told::read(&output);
    for (name, whats) in [
        ("accepted", &["accepted"][..]),
        ("duplicates", &["duplicate"]),
        ("refused", &["refused"]),
        ("deliveries", &["handles", "tries again", "takes over"]),
        ("retried", &["tries again"]),
        ("taken over", &["takes over"]),
        ("dead", &["dead"]),
        ("redriven", &["redrives"]),
        ("handled", &["done"]),
    ] {
        assert_eq!(told.sum(name), told.count(whats), "{name}");
    }
    assert_eq!(told.sum("accepted") + told.sum("duplicates") + told.sum("refused"), 16);
    assert_eq!(told.sum("accepted"), told.sum("handled"));
    assert_eq!(told.sum("dead"), told.sum("redriven"));
    assert_eq!(told.sum("refused"), 1, "one call contradicts another");
    for what in ["crashes", "is killed", "starts"] {
        assert_eq!(told.count(&[what]), 1, "{what}");
    }
    assert!(told.sum("taken over") >= 1, "what the crashed worker held is taken over");
    assert!(told.sum("dead") >= 3, "three cannot be handled before the bug is fixed");
    assert!(told.closing.iter().any(|line| line.contains("It was given up at")), "one story is told");
    assert!(told.closing.last().unwrap().contains("None lost"));
    assert!(nothing_is_left(&home));
}

#[test]
fn every_accepted_message_is_done_once() {
    let home = TempDir::new().unwrap();
    let output = demo(home.path()).args(["--messages", "60", "--seed", "6"]).output().unwrap();
    let told = Told::read(&output);
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for (_, what, message) in &told.story {
        match what.as_str() {
            "accepted" => assert!(ends.insert(message, 0).is_none(), "{message} is accepted twice"),
            "done" => *ends.get_mut(message.as_str()).expect("accepted before it is done") += 1,
            _ => {}
        }
    }
    assert_eq!(ends.len(), told.sum("accepted"));
    assert!(ends.values().all(|ends| *ends == 1), "{ends:?}");
}

#[test]
fn where_the_name_of_a_socket_would_be_too_long_it_uses_a_port() {
    let home = TempDir::new().unwrap();
    let deep = home.path().join("deep".repeat(30));
    fs::create_dir(&deep).unwrap();
    let told = Told::read(&demo(&deep).args(["--plain", "--messages", "16"]).output().unwrap());
    assert!(told.closing.last().unwrap().contains("None lost"));
    fs::remove_dir(&deep).expect("the directory is empty");
    assert!(nothing_is_left(&home));
}

#[test]
fn a_wrong_count_is_refused_with_code_2() {
    let home = TempDir::new().unwrap();
    let output = demo(home.path()).args(["--messages", "3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("16..=1000"));
}

#[test]
fn without_a_place_to_write_it_says_what_to_do() {
    let home = TempDir::new().unwrap();
    let output = demo(&home.path().join("missing")).arg("--plain").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("set TMPDIR"));
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for signal in ["-INT", "-HUP"] {
        let home = TempDir::new().unwrap();
        let mut demo = demo(home.path()).arg("--plain").stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(demo.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        let sent = Command::new("kill").args([signal, &demo.id().to_string()]).status().unwrap();
        assert!(sent.success());
        out.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(demo.wait().unwrap().code(), Some(130));
        assert!(nothing_is_left(&home));
    }
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let home = TempDir::new().unwrap();
    let mut demo = demo(home.path()).arg("--plain").stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(nothing_is_left(&home));
}
