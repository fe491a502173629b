//! `cargo xtask fuzz-model`, `crash`, `mass-expiry`, `sim`, `kill-payments` and `api-fuzz`: tests of the ordinary run, for as long as
//! one likes.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::programs;
use crate::test;
use crate::workspace::Workspace;

/// A test that reads from its environment how much to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    package: &'static str,
    test: &'static str,
    /// How it is built.
    profile: &'static [&'static str],
    count_variables: &'static [&'static str],
    /// None if it draws no lots.
    pub(crate) seed_variable: Option<&'static str>,
}

/// The memory store against the naive model.
pub(crate) const FUZZ_MODEL: Kind = Kind {
    name: "fuzz-model",
    unit: "--cases",
    package: "oncebox-store-memory",
    test: "random_comparison",
    profile: &["--release"],
    count_variables: &["ONCEBOX_MODEL_CASES"],
    seed_variable: Some("ONCEBOX_MODEL_SEED"),
};

/// The embedded store on a disk that stops, tears, loses, reorders and flips.
pub(crate) const CRASH: Kind = Kind {
    name: "crash",
    unit: "--points",
    package: "oncebox-store-embedded",
    test: "crash_",
    profile: &["--release"],
    count_variables: &["ONCEBOX_CRASH_POINTS", "ONCEBOX_CRASH_FLIPS"],
    seed_variable: Some("ONCEBOX_CRASH_SEED"),
};

/// The embedded store, on a real disk, when all of its messages expire together.
pub(crate) const MASS_EXPIRY: Kind = Kind {
    name: "mass-expiry",
    unit: "--messages",
    package: "oncebox-store-embedded",
    test: "mass::real::",
    profile: &["--release"],
    count_variables: &["ONCEBOX_MASS_MESSAGES"],
    seed_variable: None,
};

/// The library in simulated worlds.
pub(crate) const SIM: Kind = Kind {
    name: "sim",
    unit: "--seeds",
    package: "oncebox-sim",
    test: "simulation",
    profile: &["--release"],
    count_variables: &["ONCEBOX_SIM_SEEDS"],
    seed_variable: Some("ONCEBOX_SIM_SEED"),
};

/// The example about payments, killed again and again.
pub(crate) const KILL_PAYMENTS: Kind = Kind {
    name: "kill-payments",
    unit: "--rounds",
    package: "oncebox-examples",
    test: "killed_payments",
    // A program that is killed all the time need not be fast.
    profile: &[],
    count_variables: &["ONCEBOX_PAYMENTS_ROUNDS"],
    seed_variable: Some("ONCEBOX_PAYMENTS_SEED"),
};

/// The server, with requests that are made of its description.
pub(crate) const API_FUZZ: Kind = Kind {
    name: "api-fuzz",
    unit: "--requests",
    package: "oncebox-cli",
    test: "described::requests",
    profile: &[],
    count_variables: &["ONCEBOX_API_FUZZ_REQUESTS"],
    seed_variable: Some("ONCEBOX_API_FUZZ_SEED"),
};

/// How much of it to do, and from which seed (the test's own unless given).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Campaign {
    pub(crate) kind: &'static Kind,
    pub(crate) count: u64,
    pub(crate) seed: Option<String>,
}

pub(crate) fn run(workspace: &Workspace, campaign: &Campaign) -> Result<String> {
    let Campaign { kind, count, seed } = campaign;
    if [&KILL_PAYMENTS, &API_FUZZ].contains(kind) {
        programs::provide()?;
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
        let text = format!("no test is named {}; give it its name back", kind.test);
        return Err(Failure::new(text));
    }
    Ok(format!("{}: {count} {}, all as promised", kind.name, kind.unit.trim_start_matches("--")))
}
