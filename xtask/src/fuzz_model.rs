//! `cargo xtask fuzz-model`: the random comparison of store and naive model, as long as one likes.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::test;
use crate::workspace::Workspace;

/// How much to compare, and from which seed (a fresh one unless given).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) cases: u64,
    pub(crate) seed: Option<String>,
}

const ARGUMENTS: [&str; 9] = [
    "test",
    "--release",
    "-p",
    "oncebox-store-memory",
    "--test",
    "it",
    "random_comparison",
    "--",
    "--nocapture",
];

pub(crate) fn run(workspace: &Workspace, campaign: &Campaign) -> Result<String> {
    let cases = campaign.cases.to_string();
    let mut environment = vec![("ONCEBOX_MODEL_CASES", cases.as_str())];
    environment.extend(campaign.seed.as_deref().map(|seed| ("ONCEBOX_MODEL_SEED", seed)));
    let call = Call { environment: &environment, arguments: &ARGUMENTS };
    println!("{call}");
    if test::totals(workspace, &call)?.passed == 0 {
        return Err(Failure::new("no test is named random_comparison; give the comparison its name back"));
    }
    Ok(format!("fuzz-model: {cases} cases, no difference"))
}
