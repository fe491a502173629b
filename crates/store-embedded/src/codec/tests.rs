//! Decoding accepts arbitrary bytes without panicking, and every effect survives a round trip.

use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::machine::{Effect, TimedEffect};
use oncebox_core::{
    AttemptCount, Attributes, CallerHash, DeadReason, Divergence, Fence, Fingerprint, Grant, GrantEnd, Hold,
    Id, Keep, Key, LastError, Lease, MessageState, Namespace, NewMessage, Number, Owner, Partition, Payload,
    Policy, RequestId, Seal, Settled, Shard, Snapshot, Source, Timestamp, Topic, Trace, Uid, VerdictKind,
    WorkerName,
};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{Boot, Entry, Reader, Writer, decode_entry, encode, encode_boot};
use crate::fuzzing;

const KINDS: usize = 13;

/// Builds values from random bytes; zeros when none are left.
struct Draw(std::vec::IntoIter<u8>);

impl Draw {
    fn u8(&mut self) -> u8 {
        self.0.next().unwrap_or(0)
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.u8()))
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|_| self.u8()))
    }

    fn flag(&mut self) -> bool {
        self.u8() % 2 == 1
    }

    fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    fn choice<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.u8()) % values.len()]
    }

    /// One to 16 characters, some of more than one byte.
    fn text(&mut self) -> String {
        (0..=self.u8() % 16).map(|_| self.choice(&['a', 'Z', '0', '-', 'ä', '€'])).collect()
    }

    fn time(&mut self) -> Timestamp {
        Timestamp::from_millis(self.u64())
    }

    fn number(&mut self) -> Number {
        Number(self.u64() >> 1)
    }

    fn uid(&mut self) -> Uid {
        Uid::from_u128(u128::from(self.u64()) << 64 | u128::from(self.u64()))
    }

    fn key(&mut self) -> Key {
        let namespace =
            self.choice(&[Namespace::Inbox, Namespace::Commands, Namespace::Ledger, Namespace::Mailbox]);
        Key::new(namespace, Source::new(self.text()).unwrap(), Id::new(self.text()).unwrap())
    }

    fn duration(&mut self) -> Duration {
        Duration::from_millis(self.u64())
    }

    fn hold(&mut self) -> Hold {
        let (window, after) = (self.duration(), Keep::After(self.duration()));
        Hold { window, keep: self.choice(&[Keep::Window, Keep::UntilFinished, after]) }
    }

    fn hash(&mut self) -> CallerHash {
        CallerHash::new("sha256", &self.u64().to_le_bytes().repeat(4)).unwrap()
    }

    fn trace(&mut self) -> Trace {
        let trace = Trace::default().with_correlation(&self.text()).unwrap();
        if self.flag() { trace.with_tenant(&self.text()).unwrap() } else { trace }
    }

    fn error(&mut self) -> LastError {
        LastError::new(&self.text()).unwrap()
    }

    fn state(&mut self) -> MessageState {
        self.choice(&[MessageState::Seen, MessageState::Processing, MessageState::Done, MessageState::Dead])
    }

    fn reason(&mut self) -> DeadReason {
        use DeadReason::{Cancelled, Exhausted, Expired, Failed, Integrity, Undecodable, Unhandled};
        self.choice(&[Failed, Exhausted, Expired, Cancelled, Integrity, Unhandled, Undecodable])
    }

    fn verdict(&mut self) -> VerdictKind {
        use VerdictKind::{Abandon, Ack, Fail, Release};
        self.choice(&[Ack, Abandon, Fail, Release])
    }

    fn settled(&mut self) -> Settled {
        let (at, reason) = (self.time(), self.reason());
        self.choice(&[
            Settled::Done,
            Settled::Superseded,
            Settled::Retrying { at },
            Settled::Released,
            Settled::Dead { reason },
        ])
    }

    fn lease(&mut self) -> Lease {
        let owner = Owner::new(u128::from(self.u64()) + 1).unwrap();
        Lease { owner, fence: Fence::new(self.u64().max(1)).unwrap(), until: self.time() }
    }

    fn request(&mut self) -> RequestId {
        RequestId::from_u128(u128::from(self.u64()))
    }

    fn worker(&mut self) -> WorkerName {
        WorkerName::new(format!("worker {}", self.u8())).unwrap()
    }

    fn partition(&mut self) -> Partition {
        Partition::new(self.text()).unwrap()
    }

    fn message(&mut self) -> NewMessage {
        let payload = vec![self.u8(); usize::from(self.u8())];
        let topic = Topic::new(self.text()).unwrap();
        let mut message = NewMessage::new(self.key(), topic, Payload::new(payload).unwrap());
        message.uid = self.option(Self::uid);
        message.hash = self.option(Self::hash);
        message.trace = self.trace();
        message.policy = Policy {
            attempts_max: NonZeroU32::new(self.u32()),
            hold: self.hold(),
            divergence: self.choice(&[Divergence::Replace, Divergence::KeepFirst, Divergence::Conflict]),
            keep_finished: self.flag(),
        };
        let pairs: Vec<_> = (0..self.u8() % 4).map(|_| (self.text(), self.text())).collect();
        message.content.attributes = Attributes::new(pairs).unwrap();
        message.content.shard = Shard(u16::from(self.u8()));
        message.content.partition = self.option(Self::partition);
        message.content.due = self.option(Self::time);
        message.content.expires = self.option(Self::time);
        message.content.seal =
            self.option(|draw| Seal { at: draw.time(), chain: Fingerprint::of_bytes(&[draw.u8()]) });
        message
    }

    fn grant(&mut self) -> Grant {
        Grant {
            lease: self.lease(),
            extendable_until: self.time(),
            request: self.option(Self::request),
            attempts_max: NonZeroU32::new(self.u32()),
            worker: self.option(Self::worker),
            partition: self.option(Self::partition),
            superseded: self.flag(),
            end: self.option(|draw| {
                let settled = GrantEnd::Settled(draw.verdict(), draw.settled());
                draw.choice(&[settled, GrantEnd::Lost])
            }),
        }
    }

    fn snapshot(&mut self, uid: Uid) -> Snapshot {
        let message = self.message();
        Snapshot {
            uid,
            number: self.number(),
            key: message.key,
            keyed: self.flag(),
            state: self.state(),
            dead: self.option(Self::reason),
            content: self.option(|_| message.content),
            fingerprint: self.option(|_| message.fingerprint),
            hash: message.hash,
            trace: message.trace,
            policy: message.policy,
            accepted_at: self.time(),
            last_seen_at: self.time(),
            finished_at: self.option(Self::time),
            retry_at: self.option(Self::time),
            attempts: self.u32(),
            deliveries: self.u32(),
            redrives: self.u32(),
            last_error: self.option(Self::error),
            grant: self.option(Self::grant),
        }
    }
}

/// An effect of one kind, as bytes and as text.
fn effect(kind: usize, entropy: Vec<u8>) -> (Vec<u8>, String) {
    let mut draw = Draw(entropy.into_iter());
    let (at, uid, number, state) = (draw.time(), draw.uid(), draw.number(), draw.state());
    let (message, snapshot, key) = (draw.message(), draw.snapshot(uid), draw.key());
    let (hash, error) = (draw.option(Draw::hash), draw.option(Draw::error));
    let (hash, error, until) = (hash.as_ref(), error.as_ref(), draw.time());
    let worker = draw.option(Draw::worker);
    let effect = match kind {
        0 => Effect::Accepted { number, message: &message },
        1 => Effect::Recorded { number, key: &key, hold: draw.hold(), hash, state },
        2 => Effect::Restored(&snapshot),
        3 => Effect::Observed { hash },
        4 => Effect::Filled { number, message: &message },
        5 => Effect::Replaced { message: &message, diverged: draw.flag() },
        6 => Effect::Granted {
            lease: draw.lease(),
            extendable_until: until,
            request: draw.option(Draw::request),
            attempts_max: NonZeroU32::new(draw.u32()),
            worker: worker.as_ref(),
        },
        7 => Effect::Extended { until },
        8 => Effect::Settled { kind: draw.verdict(), outcome: draw.settled(), error },
        9 => Effect::Marked { state },
        10 => Effect::Killed { reason: draw.reason(), error },
        11 => {
            let attempts = draw.choice(&[AttemptCount::Reset, AttemptCount::Keep]);
            Effect::Redriven { number, attempts }
        }
        _ => Effect::Dropped,
    };
    let (mut writer, record) = (Writer::default(), TimedEffect { at, uid, effect });
    encode(&mut writer, record);
    (writer.0, format!("{record:?}"))
}

/// Found by fuzzing: the number after the highest one does not exist.
#[test]
fn a_message_number_that_is_out_of_range_is_refused() {
    let mut boot = Boot::default();
    for (number_next, is_valid) in [((1 << 63) - 1, true), (1 << 63, false), (u64::MAX, false)] {
        boot.number_next = number_next;
        let mut writer = Writer::default();
        encode_boot(&mut writer, &boot);
        assert_eq!(fuzzing::replay(&writer.0), is_valid, "{number_next}");
    }
    // A message that was restored from a snapshot.
    let bytes = [
        3, 255, 254, 254, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 2, 1, 0, 0, 0, 5, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 2, 0, 6, 0, 0, 0, 0, 0, 0, 0,
        255, 2, 1, 0, 0, 1, 1, 1, 0, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0,
    ];
    assert!(!fuzzing::replay(&bytes));
}

proptest! {
    #[test]
    fn every_effect_survives_a_round_trip(entropy in vec(any::<u8>(), 0..600)) {
        for kind in 0..KINDS {
            let (bytes, text) = effect(kind, entropy.clone());
            prop_assert_eq!(usize::from(bytes[0]), kind + 1);
            let mut reader = Reader(&bytes);
            let entry = decode_entry(&mut reader).unwrap();
            prop_assert!(reader.is_at_end());
            let Entry::Effect(stored) = entry else { panic!("an effect was decoded as a boot record") };
            prop_assert_eq!(format!("{:?}", stored.record()), text);
            let mut again = Writer::default();
            encode(&mut again, stored.record());
            prop_assert_eq!(again.0, bytes);
        }
    }

    #[test]
    fn a_boot_record_survives_a_round_trip(id in ".{0,40}", lease: u32, held: u64, closed: bool) {
        let longest_lease = Duration::from_millis(lease.into());
        let held_until = Timestamp::from_millis(held);
        let opened_after = closed.then_some(Timestamp::from_millis(held / 3));
        let (number_next, epoch) = (held / 2, held / 5);
        let boot = Boot { id, longest_lease, held_until, opened_after, epoch, closed, number_next };
        let mut writer = Writer::default();
        encode_boot(&mut writer, &boot);
        let entry = decode_entry(&mut Reader(&writer.0)).unwrap();
        prop_assert!(matches!(entry, Entry::Boot(same) if same == boot));
    }

    #[test]
    fn arbitrary_bytes_can_be_decoded(mut bytes in vec(any::<u8>(), 0..2_000), tag in 0_u8..40) {
        if let Some(first) = bytes.first_mut() {
            *first = tag;
        }
        prop_assert!(fuzzing::decode(&bytes) <= bytes.len());
    }

    /// Entries with changed, missing and additional bytes are decoded up to the first error, without panicking.
    #[test]
    fn damaged_entries_can_be_decoded(
        entropy in vec(any::<u8>(), 0..600),
        damage in vec((any::<u16>(), any::<u8>(), 0_u8..3), 0..4),
    ) {
        for kind in 0..KINDS {
            let (mut bytes, _) = effect(kind, entropy.clone());
            bytes.extend(effect((kind + 7) % KINDS, entropy.clone()).0);
            prop_assert_eq!(fuzzing::decode(&bytes), 2);
            // Creating a machine is expensive: replay only one kind per case.
            let replayed = kind == entropy.len() % KINDS;
            prop_assert!(!replayed || fuzzing::replay(&bytes), "undamaged entries form a valid group");
            for (place, value, way) in &damage {
                let place = usize::from(*place) % (bytes.len() + 1);
                match way {
                    0 => bytes.insert(place, *value),
                    1 => bytes.truncate(place),
                    _ => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte = *value),
                }
            }
            prop_assert!(fuzzing::decode(&bytes) <= bytes.len());
            if replayed {
                fuzzing::replay(&bytes);
            }
        }
    }
}
