//! `oncebox demo`: what it tells at the end is what it told on the way.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn oncebox(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
    command.env("TMPDIR", home).arg("demo");
    command
}

fn is_empty(home: &TempDir) -> bool {
    fs::read_dir(home.path()).expect("the directory can be read").next().is_none()
}

/// The lines of the story, and what came after them.
struct Told {
    /// Who, what, which message.
    story: Vec<(String, String, String)>,
    closing: Vec<String>,
}

impl Told {
    fn read(output: &Output) -> Self {
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
    let output = oncebox(home.path()).args(["--plain", "--messages", "16", "--seed", "5"]).output().unwrap();
    let told = Told::read(&output);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, whats) in [
        ("accepted", &["accepted"][..]),
        ("duplicates", &["duplicate"]),
        ("replaced", &["replaced"]),
        ("deliveries", &["handles", "tries again", "takes over"]),
        ("retried", &["tries again"]),
        ("taken over", &["takes over"]),
        ("handled", &["done"]),
        ("dead", &["dead"]),
    ] {
        assert_eq!(told.sum(name), told.count(whats), "{name}");
    }
    assert_eq!(told.sum("accepted") + told.sum("duplicates") + told.sum("replaced"), 16);
    assert_eq!(told.sum("accepted"), told.sum("handled") + told.sum("dead"));
    assert_eq!(told.count(&["crashes"]), 1);
    assert!(told.sum("taken over") >= 1, "what the crashed worker held is taken over");
    assert_eq!(told.count(&["panicked"]), 1);
    assert!(told.sum("dead") >= 3, "one is refused, one is never answered, one cannot be read");
    assert!(told.closing.last().unwrap().ends_with("None lost."));
    assert!(is_empty(&home), "the directory of the demo is removed");
}

#[test]
fn every_accepted_message_has_one_end() {
    let home = TempDir::new().unwrap();
    let output = oncebox(home.path()).args(["--messages", "20", "--seed", "6"]).output().unwrap();
    let told = Told::read(&output);
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for (_, what, message) in &told.story {
        match what.as_str() {
            "accepted" => assert!(ends.insert(message, 0).is_none(), "{message} is accepted twice"),
            "done" | "dead" => *ends.get_mut(message.as_str()).expect("accepted before it ends") += 1,
            _ => {}
        }
    }
    assert_eq!(ends.len(), told.sum("accepted"));
    assert!(ends.values().all(|ends| *ends == 1), "{ends:?}");
}

#[test]
fn a_wrong_count_is_refused_with_code_2() {
    let home = TempDir::new().unwrap();
    let output = oncebox(home.path()).args(["--messages", "3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("16..=1000"));
}

#[cfg(unix)]
#[test]
fn without_a_place_to_write_it_says_what_to_do() {
    let home = TempDir::new().unwrap();
    let output = oncebox(&home.path().join("missing")).arg("--plain").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("set TMPDIR"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_demo_cleans_up() {
    let home = TempDir::new().unwrap();
    let mut demo = oncebox(home.path()).arg("--plain").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(demo.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let sent = Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert!(is_empty(&home), "the directory of the demo is removed");
}
