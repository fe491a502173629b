//! Requests that schemathesis makes of the description that the server serves, right ones and wrong ones, with all of its own checks.
//!
//! Some hundred in every test run; `cargo xtask api-fuzz` makes thousands, in rounds with one seed after another, and asks also that
//! every operation was answered 200 at least once, for otherwise the run was shallow.

use std::process::Command;

use super::super::rig::{Server, Store};
use super::answers::Answers;
use super::tools::{PIP, Tools, run};

const SCHEMATHESIS: Tools = Tools {
    name: "schemathesis",
    files: &[("requirements.txt", include_str!("../../../described/requirements.txt"))],
    commands: PIP,
};
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/described/hooks.py");
/// Messages die early and come again at once, so that dead letters and repeats are seen.
const SETTINGS: [&str; 3] =
    ["mailbox.topic.attempts_max=2", "mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=2ms"];
/// How many requests at least, and the first seed; for campaigns.
const REQUESTS: &str = "ONCEBOX_API_FUZZ_REQUESTS";
const SEED: &str = "ONCEBOX_API_FUZZ_SEED";
const ROUNDS_MAX: u64 = 200;

/// How deep a round goes.
struct Round {
    seed: u64,
    /// Requests per operation that are made at random.
    examples: &'static str,
    phases: &'static str,
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a whole number")))
}

fn play(server: &Server, round: &Round) -> String {
    let (url, seed) = (format!("http://{}", server.address), round.seed.to_string());
    let tools = SCHEMATHESIS.provide();
    let mut command = Command::new(tools.join("bin/schemathesis"));
    command.args(["run", &format!("{url}/openapi.json"), "--seed", &seed, "--phases", round.phases]);
    // With more workers, Python 3.11 now and then fails in its own parser: "AST constructor recursion depth mismatch".
    command.args(["--max-examples", round.examples, "--workers", "1", "--continue-on-failure"]);
    command.args(["--request-timeout", "20", "--generation-database", "none", "--no-color"]);
    command.env("SCHEMATHESIS_HOOKS", HOOKS).env(SEED, &seed).env("ONCEBOX_API_FUZZ_URL", url);
    command.env("ONCEBOX_API_FUZZ_ANSWERS", server.path().join("answers.tsv"));
    run(command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(server.path()))
}

#[test]
fn requests_made_of_the_description_are_answered_as_described() {
    let server = Server::start(Store::Embedded, &SETTINGS);
    let answers = || Answers::read(&server.path().join("answers.tsv"));
    let Some(requests) = variable(REQUESTS) else {
        let seed = variable(SEED).unwrap_or(1);
        play(&server, &Round { seed, examples: "6", phases: "examples,fuzzing,stateful" });
        assert!(answers().requests() >= 150, "{}", answers().table());
        return;
    };
    let first = variable(SEED).unwrap_or(1);
    for seed in first..first + ROUNDS_MAX {
        play(&server, &Round { seed, examples: "60", phases: "examples,coverage,fuzzing,stateful" });
        println!("seed {seed}, {} requests so far", answers().requests());
        if answers().requests() >= requests {
            break;
        }
    }
    let answers = answers();
    println!("{}{} requests to {} operations", answers.table(), answers.requests(), answers.operations());
    assert!(answers.requests() >= requests, "all rounds are over");
    let shallow = answers.without_success();
    assert!(shallow.is_empty(), "never answered 200: {shallow:?}; lead requests there in {HOOKS}");
    server.stop();
}
