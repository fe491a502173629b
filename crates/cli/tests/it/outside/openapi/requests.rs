//! Valid and invalid requests that schemathesis generates from the server's OpenAPI description, with all of its
//! checks.
//!
//! A test run makes a few hundred requests. `cargo xtask api-fuzz` makes thousands, in rounds with consecutive seeds,
//! and also requires that every operation returned 200 at least once, because otherwise the run covered too little.

use std::process::Command;

use super::super::capabilities::Guarded;
use super::super::rig::Store;
use super::responses::Responses;
use super::tools::{PIP, Tools, run};

const SCHEMATHESIS: Tools = Tools {
    name: "schemathesis",
    files: &[("requirements.txt", include_str!("../../../openapi/requirements.txt"))],
    commands: PIP,
};
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openapi/hooks.py");
/// Few attempts and short backoffs, so that dead letters and redeliveries occur.
const SETTINGS: [&str; 3] =
    ["mailbox.topic.attempts_max=2", "mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=2ms"];
/// The minimum number of requests and the first seed, for campaigns.
const REQUESTS: &str = "ONCEBOX_API_FUZZ_REQUESTS";
const SEED: &str = "ONCEBOX_API_FUZZ_SEED";
const ROUNDS_MAX: u64 = 200;

/// One run of schemathesis.
struct Round {
    seed: u64,
    /// Random requests per operation.
    examples: &'static str,
    phases: &'static str,
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a whole number")))
}

fn run_round(guarded: &Guarded, round: &Round) -> String {
    let server = &guarded.server;
    let token = guarded.mint(&["--for", "12h"]);
    let (url, seed) = (format!("http://{}", server.address), round.seed.to_string());
    let tools = SCHEMATHESIS.provide();
    let mut command = Command::new(tools.join("bin/schemathesis"));
    command.args(["run", &format!("{url}/openapi.json"), "--seed", &seed, "--phases", round.phases]);
    // With more workers, Python 3.11 occasionally fails in its own parser: "AST constructor recursion depth mismatch".
    command.args(["--max-examples", round.examples, "--workers", "1", "--continue-on-failure"]);
    command.args(["--request-timeout", "20", "--generation-database", "none", "--no-color"]);
    command.args(["--header", &format!("Authorization: Bearer {token}")]);
    command.env("ONCEBOX_API_FUZZ_TOKEN", &token);
    command.env("SCHEMATHESIS_HOOKS", HOOKS).env(SEED, &seed).env("ONCEBOX_API_FUZZ_URL", url);
    command.env("ONCEBOX_API_FUZZ_ANSWERS", server.path().join("answers.tsv"));
    run(command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(server.path()))
}

#[test]
fn generated_requests_are_answered_as_described() {
    let guarded = Guarded::start_with(Store::Embedded, &SETTINGS);
    let server = &guarded.server;
    let responses = || Responses::read(&server.path().join("answers.tsv"));
    let Some(requests) = variable(REQUESTS) else {
        let seed = variable(SEED).unwrap_or(1);
        run_round(&guarded, &Round { seed, examples: "6", phases: "examples,fuzzing,stateful" });
        assert!(responses().requests() >= 150, "{}", responses().table());
        return;
    };
    let first = variable(SEED).unwrap_or(1);
    for seed in first..first + ROUNDS_MAX {
        run_round(&guarded, &Round { seed, examples: "60", phases: "examples,coverage,fuzzing,stateful" });
        println!("seed {seed}, {} requests so far", responses().requests());
        if responses().requests() >= requests {
            break;
        }
    }
    let responses = responses();
    println!(
        "{}{} requests to {} operations",
        responses.table(),
        responses.requests(),
        responses.operations()
    );
    assert!(responses.requests() >= requests, "too few requests in all rounds");
    let failing = responses.without_success();
    assert!(failing.is_empty(), "never returned 200: {failing:?}; make such requests valid in {HOOKS}");
    guarded.server.stop();
}
