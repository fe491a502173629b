//! Runs the simulation with many seeds. `ONCEBOX_SIM_SEEDS` sets their number, `ONCEBOX_SIM_SEED` the first one.

mod pacing;

use std::collections::BTreeMap;
use std::env;
use std::panic::catch_unwind;

use oncebox_sim::audit::{SimTally, SimViolation};
use oncebox_sim::{SimRun, run};

const SEEDS: u64 = 200;
/// Number of events shown of a failed run.
const TAIL: usize = 60;
/// Number of seeds between two progress messages.
const PROGRESS: u64 = 1_000;
/// The fault kinds that must occur in a test run with the default seeds.
const KINDS: [&str; 15] = [
    "clock jump",
    "crash",
    "drain",
    "hang",
    "late",
    "lost answer",
    "lost request",
    "lost wake-up",
    "pause",
    "slow answer",
    "slow request",
    "stop",
    "topic paused for receiving",
    "topic paused for sending",
    "unreachable",
];

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}

/// Under all faults, no accepted message is lost, and the worker keeps its guarantees; see `audit` for each.
/// Holds: IBX-078, CMD-20.
#[test]
fn simulation() {
    let seed = variable("ONCEBOX_SIM_SEED");
    let count = variable("ONCEBOX_SIM_SEEDS").unwrap_or(if seed.is_some() { 1 } else { SEEDS });
    let first = seed.unwrap_or(1);
    let (mut total, mut faults, mut events) = (SimTally::default(), BTreeMap::<_, u64>::new(), 0);
    for seed in first..first + count {
        if seed > first && (seed - first).is_multiple_of(PROGRESS) {
            println!("simulation: {} of {count} seeds done", seed - first);
        }
        let run = catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("panicked; {}", reproduce(seed)));
        let tally = match &run.verdict {
            Ok(tally) => tally,
            Err(violation) => panic!("{}", report(seed, &run, violation)),
        };
        total.add(tally);
        events += run.trace.len();
        let occurred = run.faults();
        assert!(occurred.values().any(|count| *count > 0), "no fault occurred; {}", reproduce(seed));
        for (kind, count) in occurred {
            *faults.entry(kind).or_default() += count;
        }
    }
    println!("simulation: {count} seeds from {first} done, {events} events; {total}");
    println!("simulation: faults: {}", listed(&faults));
    let missing: Vec<_> = KINDS.into_iter().filter(|kind| !faults.contains_key(kind)).collect();
    assert!(count < SEEDS || missing.is_empty(), "the simulation had no {missing:?}");
}

fn listed(faults: &BTreeMap<&str, u64>) -> String {
    let faults: Vec<_> = faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    faults.join(", ")
}

fn report(seed: u64, run: &SimRun, violation: &SimViolation) -> String {
    let tail = run.trace.iter().take(violation.events).skip(violation.events.saturating_sub(TAIL));
    let tail: Vec<_> = tail.map(|event| format!("  {event}")).collect();
    let tail = tail.join("\n");
    format!("seed {seed}: {violation}\nthe last events:\n{tail}\n{}", reproduce(seed))
}

fn reproduce(seed: u64) -> String {
    format!("to reproduce: cargo xtask sim --seeds 1 --seed {seed}")
}

#[test]
fn a_seed_determines_the_run() {
    for seed in 1_000..1_010 {
        let (first, second) = (run(seed), run(seed));
        let difference = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(difference, None, "seed {seed}");
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
    }
}
