//! The state machine, one lifecycle = accept + claim + ack in batches of 100 on one core, against a bare `HashMap`
//! insert, `BTreeMap` push and pop, and `HashMap` remove on the same keys. Durability: none on either side.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::Duration;

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::machine::{CallContext, Capacity, Machine};
use oncebox_core::{
    Batch, Budget, Claim, Delivery, Key, Namespace, NewMessage, Owner, Payload, Settlement, Span, Timestamp,
};
use oncebox_testkit::SplitMix;

use crate::messages::Messages;
use crate::options::Options;
use crate::pairs::compare;
use crate::report::Report;

const BATCH: usize = 100;
const PAYLOAD_BYTES: usize = 64;
const ROUNDS: usize = 10;
/// Maximum number of finished messages retained in addition to the live ones.
const REMEMBERED_MAX: usize = 100_000;
const SIZES: [(&str, usize); 3] = [("live10k", 10_000), ("live1m", 1_000_000), ("live5m", 5_000_000)];

pub(crate) fn run(options: &Options, report: &mut Report) {
    let lifecycles = if options.quick { 50_000 } else { 300_000 };
    println!(
        "durability: none; batches of {BATCH}, {PAYLOAD_BYTES} B payloads, {ROUNDS} paired rounds of {lifecycles}"
    );
    report.figure("machine.overhead_bytes", overhead_bytes());
    println!("{:>10} {:>16} {:>16} {:>8}", "live", "ours/s", "bare/s", "ratio");
    for (name, live) in SIZES {
        let mut source = Messages::new(PAYLOAD_BYTES);
        let mut ours = Ours::new(live.min(REMEMBERED_MAX));
        let mut bare = Bare::default();
        for _ in 0..live / BATCH {
            let messages = source.take(BATCH);
            ours.accept(&messages);
            bare.insert(&messages);
        }
        let batches = lifecycles as usize / BATCH;
        let result = compare(
            ROUNDS,
            lifecycles,
            || (0..batches).map(|_| source.take(BATCH)).collect::<Vec<_>>(),
            |batches| batches.iter().for_each(|messages| ours.lifecycle(messages)),
            |batches| batches.iter().for_each(|messages| bare.lifecycle(messages)),
        );
        println!(
            "{live:>10} {:>16.0} {:>16.0} {:>8.3}",
            result.ours_per_second, result.rival_per_second, result.ratio
        );
        report.figure(&format!("machine.{name}.ratio_bare"), result.ratio);
    }
}

struct Ours {
    machine: Machine,
    ids: SplitMix,
    now: Timestamp,
    step: Duration,
    claim: Claim,
}

impl Ours {
    /// Advances the clock with each batch so that about `remembered` finished messages are in the repeat window.
    fn new(remembered: usize) -> Self {
        let batches = u32::try_from(remembered / BATCH).expect("few");
        let unbounded = Capacity { messages_max: u64::MAX, keys_max: u64::MAX, live_bytes_max: u64::MAX };
        let owner = Owner::new(1).expect("not nil");
        let lease = Span::lease(Duration::from_secs(30)).expect("not zero");
        let batch = Batch::new(u32::try_from(BATCH).expect("small")).expect("in bounds");
        Self {
            machine: Machine::new(unbounded),
            ids: SplitMix::new(7),
            now: Timestamp::from_millis(1_767_225_600_000),
            step: REPEAT_WINDOW / batches,
            claim: Claim::new(Namespace::Inbox, owner, lease, batch),
        }
    }

    fn accept(&mut self, messages: &[NewMessage]) {
        let mut context = CallContext { now: self.now, ids: &mut self.ids, journal: &mut () };
        for message in messages {
            black_box(self.machine.accept(&mut context, message));
        }
    }

    fn lifecycle(&mut self, messages: &[NewMessage]) {
        self.accept(messages);
        self.now = self.now.after(self.step);
        let mut context = CallContext { now: self.now, ids: &mut self.ids, journal: &mut () };
        let deliveries = self.machine.claim(&mut context, &self.claim);
        assert_eq!(deliveries.len(), BATCH);
        let settlements: Vec<Settlement> = deliveries.iter().map(Delivery::ack).collect();
        for settlement in &settlements {
            black_box(self.machine.settle(&mut context, settlement));
        }
        self.machine.take_wakeups(|_, _| ());
        black_box(self.machine.maintain(&mut context, Budget::new(2 * 100)));
    }
}

#[derive(Default)]
struct Bare {
    messages: HashMap<Key, Payload>,
    queue: BTreeMap<u64, Key>,
    number: u64,
}

impl Bare {
    fn insert(&mut self, messages: &[NewMessage]) {
        for message in messages {
            self.number += 1;
            self.messages.insert(message.key.clone(), message.content.payload.clone());
            self.queue.insert(self.number, message.key.clone());
        }
    }

    fn lifecycle(&mut self, messages: &[NewMessage]) {
        self.insert(messages);
        let taken: Vec<_> = (0..BATCH).filter_map(|_| self.queue.pop_first()).collect();
        assert_eq!(taken.len(), BATCH);
        for (_, key) in &taken {
            black_box(self.messages.remove(key));
        }
    }
}

/// Resident memory per live message, without the bytes of its key and payload.
fn overhead_bytes() -> f64 {
    const LIVE: usize = 1_000_000;
    let mut source = Messages::new(PAYLOAD_BYTES);
    let mut ours = Ours::new(REMEMBERED_MAX);
    let before = resident_bytes();
    let mut own_bytes = 0;
    for _ in 0..LIVE / BATCH {
        let messages = source.take(BATCH);
        // All messages share the source string, so it is not subtracted.
        let bytes = |message: &NewMessage| message.key.id.as_str().len() + message.content.payload.len();
        own_bytes += messages.iter().map(bytes).sum::<usize>();
        ours.accept(&messages);
    }
    let used = resident_bytes().saturating_sub(before);
    let count = |value: usize| f64::from(u32::try_from(value).expect("below 4 GiB"));
    (count(used) - count(own_bytes)) / count(LIVE)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.expect("this benchmark reads its memory from /proc/self/status") * 1024
}
