//! `cargo xtask fuzz-model`, `crash`, `mass-expiry`, `sim`, `kill-payments` and `api-fuzz`: ordinary tests that run
//! longer.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::programs;
use crate::test;
use crate::workspace::Workspace;

/// A test whose amount of work is set by environment variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CampaignKind {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    package: &'static str,
    test: &'static str,
    /// Build options.
    profile: &'static [&'static str],
    count_variables: &'static [&'static str],
    /// None if the test is not random.
    pub(crate) seed_variable: Option<&'static str>,
}

/// The memory store against the naive model.
pub(crate) const FUZZ_MODEL: CampaignKind = CampaignKind {
    name: "fuzz-model",
    unit: "--cases",
    package: "oncebox-store-memory",
    test: "random_comparison",
    profile: &["--release"],
    count_variables: &["ONCEBOX_MODEL_CASES"],
    seed_variable: Some("ONCEBOX_MODEL_SEED"),
};

/// The embedded store on a disk that stops, tears, loses and reorders writes, and flips bits.
pub(crate) const CRASH: CampaignKind = CampaignKind {
    name: "crash",
    unit: "--points",
    package: "oncebox-store-embedded",
    test: "crash_",
    profile: &["--release"],
    count_variables: &["ONCEBOX_CRASH_POINTS", "ONCEBOX_CRASH_FLIPS"],
    seed_variable: Some("ONCEBOX_CRASH_SEED"),
};

/// The embedded store on a real disk, when all its messages expire at once.
pub(crate) const MASS_EXPIRY: CampaignKind = CampaignKind {
    name: "mass-expiry",
    unit: "--messages",
    package: "oncebox-store-embedded",
    test: "mass::real::",
    profile: &["--release"],
    count_variables: &["ONCEBOX_MASS_MESSAGES"],
    seed_variable: None,
};

/// The simulation of the library.
pub(crate) const SIM: CampaignKind = CampaignKind {
    name: "sim",
    unit: "--seeds",
    package: "oncebox-sim",
    test: "simulation",
    profile: &["--release"],
    count_variables: &["ONCEBOX_SIM_SEEDS"],
    seed_variable: Some("ONCEBOX_SIM_SEED"),
};

/// The payments example, killed repeatedly.
pub(crate) const KILL_PAYMENTS: CampaignKind = CampaignKind {
    name: "kill-payments",
    unit: "--rounds",
    package: "oncebox-examples",
    test: "killed_payments",
    // The program is killed all the time: no need for an optimized build.
    profile: &[],
    count_variables: &["ONCEBOX_PAYMENTS_ROUNDS"],
    seed_variable: Some("ONCEBOX_PAYMENTS_SEED"),
};

/// The server, with requests generated from its OpenAPI document.
pub(crate) const API_FUZZ: CampaignKind = CampaignKind {
    name: "api-fuzz",
    unit: "--requests",
    package: "oncebox-cli",
    test: "openapi::requests",
    profile: &[],
    count_variables: &["ONCEBOX_API_FUZZ_REQUESTS"],
    seed_variable: Some("ONCEBOX_API_FUZZ_SEED"),
};

/// A campaign with its amount of work, and its seed if it is not the test's default.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) kind: &'static CampaignKind,
    pub(crate) count: u64,
    pub(crate) seed: Option<String>,
}

pub(crate) fn run(workspace: &Workspace, campaign: &Campaign) -> Result<String> {
    let Campaign { kind, count, seed } = campaign;
    if [&KILL_PAYMENTS, &API_FUZZ].contains(kind) {
        programs::ensure_installed()?;
    }
    let count = count.to_string();
    let counts = kind.count_variables.iter().map(|variable| (*variable, count.as_str()));
    let mut environment: Vec<_> = counts.collect();
    environment.extend(kind.seed_variable.zip(seed.as_deref()));
    let mut arguments = vec!["test", "-p", kind.package, "--test", "it"];
    arguments.extend(kind.profile);
    arguments.extend([kind.test, "--", "--nocapture"]);
    let call = Call { environment: &environment, arguments: &arguments };
    println!("{call}");
    if test::passed(workspace, &call)? == 0 {
        let text = format!("no test matches `{}`: restore its name", kind.test);
        return Err(Failure::new(text));
    }
    Ok(format!("{}: {count} {}, all passed", kind.name, kind.unit.trim_start_matches("--")))
}
