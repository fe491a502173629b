//! The scenario of a demo: which webhook calls are made when, and how handling each message goes. The same seed
//! generates the same scenario.

use std::collections::HashMap;
use std::time::Duration;

use super::random::Random;
use super::webhook::Webhook;

/// The smallest number of calls that covers every case.
pub(super) const CALLS_MIN: u64 = 16;
/// One page of a listing holds the messages of all calls.
pub(super) const CALLS_MAX: u64 = 1_000;
/// The senders.
pub(super) const SOURCES: [&str; 3] = ["stripe", "github", "shopify"];

/// Calls are spread over about this time, unless [`GAP_MAX`] ends the run sooner.
const SEND_DURATION: Duration = Duration::from_millis(3_500);
const GAP_MAX: Duration = Duration::from_millis(130);
/// Messages that no handler can process before the bug is fixed.
const POISONS: usize = 3;

/// What happens when a message is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behavior {
    /// The first delivery succeeds.
    Succeeds,
    /// This number of deliveries fail before one succeeds.
    Flaky(u32),
    /// Every delivery fails until the bug is fixed.
    Poison,
    /// The first worker that receives it crashes while handling it.
    CrashesWorker,
}

/// One message of the demo.
pub(super) struct PlannedMessage {
    pub(super) source: &'static str,
    pub(super) id: String,
    pub(super) event: &'static str,
    pub(super) about: String,
    pub(super) cents: u64,
    pub(super) payload: Vec<u8>,
    pub(super) behavior: Behavior,
    /// How long its handler runs.
    pub(super) handling_time: Duration,
}

/// One webhook call.
pub(super) struct Call {
    /// Time since the start of the demo.
    pub(super) at: Duration,
    /// Index of the message that the call sends.
    pub(super) index: usize,
    /// The payload of that message, or a different one under the same key.
    pub(super) payload: Vec<u8>,
}

pub(super) struct Scenario {
    pub(super) messages: Vec<PlannedMessage>,
    pub(super) calls: Vec<Call>,
    /// Maximum number of messages that a worker receives at once.
    pub(super) batch_max: u32,
    indexes: HashMap<String, usize>,
}

impl Scenario {
    /// Generates a scenario with `call_count` calls: a fifth of them are duplicates, and one reuses a key with a
    /// different payload.
    pub(super) fn generate(call_count: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let duplicates = call_count / 5;
        let mut webhooks: Vec<_> =
            (0..call_count - duplicates - 1).map(|serial| Webhook::generate(&mut random, serial)).collect();
        let behaviors = behaviors(&mut random, webhooks.len());
        for (webhook, _) in
            webhooks.iter_mut().zip(&behaviors).filter(|(_, behavior)| **behavior == Behavior::Poison)
        {
            webhook.upgrade_version();
        }
        let mut calls: Vec<_> = webhooks.iter().map(Webhook::payload).enumerate().collect();
        for _ in 0..duplicates {
            let original = random.index(calls.len());
            let call = calls[original].clone();
            // Half of the duplicates are immediate retries, the others arrive several calls later.
            let distance = if random.percent(50) { 1 } else { random.between(2, 12) };
            let position = original.saturating_add(usize::try_from(distance).unwrap_or(1)).min(calls.len());
            calls.insert(position, call);
        }
        let conflicting =
            behaviors.iter().position(|behavior| *behavior == Behavior::Succeeds).unwrap_or_default();
        let first = calls.iter().position(|(index, _)| *index == conflicting).unwrap_or_default();
        calls.insert((first + 3).min(calls.len()), (conflicting, webhooks[conflicting].amended_payload()));
        let batch_max = (call_count / 25).max(2);
        // Larger batches have shorter handling times, so that a batch takes about as long whatever its size.
        let handling_time =
            |random: &mut Random| Duration::from_millis(random.between(120, 320) / batch_max as u64);
        let messages = webhooks.into_iter().zip(behaviors).map(|(webhook, behavior)| PlannedMessage {
            payload: webhook.payload(),
            source: webhook.source,
            id: webhook.id,
            event: webhook.event,
            about: webhook.about,
            cents: webhook.cents,
            behavior,
            handling_time: handling_time(&mut random),
        });
        let messages: Vec<_> = messages.collect();
        let indexes =
            messages.iter().enumerate().map(|(index, message)| (message.id.clone(), index)).collect();
        let batch_max = u32::try_from(batch_max).unwrap_or(2);
        Self { messages, calls: schedule(&mut random, calls), batch_max, indexes }
    }

    /// Index of the message with this id.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.indexes.get(id).copied()
    }
}

/// One behavior per message: a fixed number of poison and crashing messages, the rest succeed or are flaky. Slow
/// cases come early.
fn behaviors(random: &mut Random, count: usize) -> Vec<Behavior> {
    let ordinary = |random: &mut Random| match random.between(0, 9) {
        0 => Behavior::Flaky(1),
        1 => Behavior::Flaky(2),
        _ => Behavior::Succeeds,
    };
    let mut behaviors = vec![Behavior::Succeeds, Behavior::Flaky(1)];
    while behaviors.len() + POISONS + 1 < count {
        behaviors.push(ordinary(random));
    }
    random.shuffle(&mut behaviors);
    for poison in 0..POISONS {
        behaviors.insert(1 + poison * count / 8, Behavior::Poison);
    }
    behaviors.insert(count / 4, Behavior::CrashesWorker);
    behaviors
}

/// Spreads the calls unevenly over time.
fn schedule(random: &mut Random, calls: Vec<(usize, Vec<u8>)>) -> Vec<Call> {
    let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
    let gap = (SEND_DURATION / count.max(1)).min(GAP_MAX);
    let mut at = Duration::ZERO;
    let call = |(index, payload)| {
        at += gap.mul_f64(f64::from(u32::try_from(random.between(20, 180)).unwrap_or(100)) / 100.0);
        Call { at, index, payload }
    };
    calls.into_iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Behavior, CALLS_MAX, CALLS_MIN, POISONS, SOURCES, Scenario};

    #[test]
    fn every_scenario_has_the_requested_calls_and_every_behavior() {
        for seed in 0..50 {
            for count in [CALLS_MIN, 40, CALLS_MAX] {
                let count = usize::try_from(count).unwrap();
                let scenario = Scenario::generate(count, seed);
                assert_eq!(scenario.calls.len(), count);
                assert_eq!(scenario.messages.len(), count - count / 5 - 1);
                let with = |behavior| {
                    scenario.messages.iter().filter(|message| message.behavior == behavior).count()
                };
                assert!(with(Behavior::Succeeds) >= 1 && with(Behavior::Flaky(1)) >= 1);
                assert_eq!((with(Behavior::Poison), with(Behavior::CrashesWorker)), (POISONS, 1));
                let ids: HashSet<_> = scenario.messages.iter().map(|message| message.id.as_str()).collect();
                assert_eq!(ids.len(), scenario.messages.len());
                assert!(scenario.messages.iter().all(|message| SOURCES.contains(&message.source)));
                assert!(scenario.calls.is_sorted_by_key(|call| call.at));
            }
        }
    }

    #[test]
    fn one_call_reuses_a_key_with_a_different_payload() {
        for seed in 0..50 {
            let scenario = Scenario::generate(40, seed);
            let conflicts = |position: &usize| {
                scenario.calls[*position].payload
                    != scenario.messages[scenario.calls[*position].index].payload
            };
            let positions: Vec<_> = (0..scenario.calls.len()).filter(conflicts).collect();
            let [position] = positions[..] else { panic!("{positions:?}") };
            let index = scenario.calls[position].index;
            assert!(scenario.calls[..position].iter().any(|call| call.index == index));
        }
    }

    #[test]
    fn the_same_seed_generates_the_same_scenario() {
        let calls = |seed| -> Vec<_> {
            let scenario = Scenario::generate(40, seed);
            scenario.calls.into_iter().map(|call| (call.at, call.index)).collect()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }
}
