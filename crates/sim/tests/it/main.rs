//! Many worlds, one after another. `ONCEBOX_SIM_SEEDS` asks for more, `ONCEBOX_SIM_SEED` for others.

mod patience;

use std::collections::BTreeMap;
use std::env;
use std::panic::catch_unwind;

use oncebox_sim::audit::{Fault, Tally};
use oncebox_sim::{Run, run};

const SEEDS: u64 = 200;
/// Events that are shown of a run that went wrong.
const TAIL: usize = 60;
/// After so many seeds a campaign tells how far it is.
const PROGRESS: u64 = 1_000;
/// Everything that must have happened over all the seeds of an ordinary run.
const KINDS: [&str; 13] = [
    "after",
    "before",
    "crash",
    "deaf",
    "drain",
    "hang",
    "late",
    "leap",
    "pause",
    "slow answer",
    "slow request",
    "stop",
    "unreachable",
];

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}

/// Whatever happens, nothing that was accepted is lost, and the worker keeps its promises; see `audit` for each.
/// Holds: IBX-078, CMD-20.
#[test]
fn simulation() {
    let seed = variable("ONCEBOX_SIM_SEED");
    let count = variable("ONCEBOX_SIM_SEEDS").unwrap_or(if seed.is_some() { 1 } else { SEEDS });
    let first = seed.unwrap_or(1);
    let (mut sum, mut faults, mut events) = (Tally::default(), BTreeMap::<_, u64>::new(), 0);
    for seed in first..first + count {
        if seed > first && (seed - first).is_multiple_of(PROGRESS) {
            println!("simulation: {} of {count} seeds done", seed - first);
        }
        let run = catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("panicked; {}", again(seed)));
        let tally = match &run.verdict {
            Ok(tally) => tally,
            Err(fault) => panic!("{}", report(seed, &run, fault)),
        };
        sum.add(tally);
        events += run.trace.len();
        let happened = run.faults();
        assert!(happened.values().any(|count| *count > 0), "nothing went wrong; {}", again(seed));
        for (kind, count) in happened {
            *faults.entry(kind).or_default() += count;
        }
    }
    println!("simulation: {count} seeds from {first} done, {events} events; {sum}");
    println!("simulation: faults: {}", listed(&faults));
    let missing: Vec<_> = KINDS.into_iter().filter(|kind| !faults.contains_key(kind)).collect();
    assert!(count < SEEDS || missing.is_empty(), "the simulation never had {missing:?}");
}

fn listed(faults: &BTreeMap<&str, u64>) -> String {
    let faults: Vec<_> = faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    faults.join(", ")
}

fn report(seed: u64, run: &Run, fault: &Fault) -> String {
    let tail = run.trace.iter().take(fault.events).skip(fault.events.saturating_sub(TAIL));
    let tail: Vec<_> = tail.map(|event| format!("  {event}")).collect();
    let tail = tail.join("\n");
    format!("seed {seed}: {fault}\nwhat came before:\n{tail}\n{}", again(seed))
}

fn again(seed: u64) -> String {
    format!("again: cargo xtask sim --seeds 1 --seed {seed}")
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 1_000..1_010 {
        let (first, second) = (run(seed), run(seed));
        let difference = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(difference, None, "seed {seed}");
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
    }
}
