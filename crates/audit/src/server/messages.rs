//! Messages of the mailbox: none is lost, none comes again after it was acknowledged, none is in two hands.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Tally, payload};
use crate::{Fault, Result};

/// A message in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its idempotency key; this load uses each under one topic only.
    pub key: String,
    /// Its identity.
    pub msg_id: String,
    /// What to settle it with.
    pub receipt: String,
    /// Which delivery it is.
    pub attempt: u32,
    /// Until when it is held for certain; zero if that is not known any more.
    pub until: u64,
}

/// What is asked of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// It was handled.
    Ack,
    /// It was not.
    Nack,
    /// It needs more time.
    Extend,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It counts.
    Counts,
    /// It is held until then.
    Until(u64),
    /// It is not held any more.
    Lost,
}

#[derive(Debug, Default)]
struct Message {
    partition: Option<String>,
    msg_id: Option<String>,
    /// How many sends were begun.
    asked: u64,
    /// A send was answered, or a delivery: it must not be lost.
    promised: bool,
    accepted: bool,
    /// The deliveries, with their receipts.
    seen: BTreeMap<u32, String>,
    /// Which delivery certainly has it, and until when.
    held: Option<(u32, u64)>,
    /// The delivery that was acknowledged.
    acked: Option<u32>,
    /// An acknowledgement was begun.
    ack_asked: bool,
}

/// All messages that were asked for.
#[derive(Debug, Default)]
pub struct Messages {
    all: HashMap<String, Message>,
    /// The keys in the order of their first sends.
    keys: Vec<String>,
    /// Which message of a partition was delivered last.
    partitions: HashMap<String, String>,
    unfinished: u64,
    pub(super) tally: Tally,
}

impl Messages {
    /// Somebody is about to send; tells whether an earlier send of the key was answered.
    pub fn asks_send(&mut self, key: &str, partition: Option<&str>) -> bool {
        let message = self.all.entry(key.to_owned()).or_default();
        if message.asked == 0 {
            self.keys.push(key.to_owned());
            self.unfinished += 1;
        }
        message.asked += 1;
        message.partition = partition.map(str::to_owned);
        message.promised
    }

    /// A send was answered; `known` is what [`Messages::asks_send`] told.
    pub fn sent(&mut self, key: &str, known: bool, msg_id: &str, duplicate: bool) -> Result<()> {
        let message = self.all.entry(key.to_owned()).or_default();
        let first = message.msg_id.get_or_insert_with(|| msg_id.to_owned());
        if first != msg_id {
            return Err(Fault::new(format!("key {key} was answered {first}, and then {msg_id}")));
        }
        if known && !duplicate {
            return Err(Fault::new(format!("key {key} is known, and a repeat was taken in as new")));
        }
        if duplicate && message.asked < 2 {
            return Err(Fault::new(format!("key {key} came once, and is called a duplicate")));
        }
        if !duplicate && std::mem::replace(&mut message.accepted, true) {
            return Err(Fault::new(format!("key {key} was taken in as new twice")));
        }
        message.promised = true;
        *(if duplicate { &mut self.tally.duplicates } else { &mut self.tally.accepted }) += 1;
        Ok(())
    }

    /// A message was given out.
    pub fn delivered(&mut self, delivery: &Delivery, carried: &[u8], now: u64) -> Result<()> {
        let Delivery { key, msg_id, receipt, attempt, until } = delivery;
        let fault = |text: String| Err(Fault::new(format!("key {key}, message {msg_id}: {text}")));
        let Some(message) = self.all.get_mut(key).filter(|message| message.asked > 0) else {
            return fault("nobody sent it".to_owned());
        };
        if message.msg_id.get_or_insert_with(|| msg_id.clone()) != msg_id {
            return fault(format!("its key was answered {:?}", message.msg_id));
        }
        if carried != payload(key).as_bytes() {
            return fault("its payload is not the one that was sent".to_owned());
        }
        if message.acked.is_some_and(|acked| *attempt > acked) {
            return fault(format!("delivery {attempt} came after delivery {:?} was acked", message.acked));
        }
        if message.seen.insert(*attempt, receipt.clone()).is_some_and(|earlier| earlier != *receipt) {
            return fault(format!("two deliveries are number {attempt}"));
        }
        let current = |held: Option<(u32, u64)>| held.filter(|(_, until)| *until > now);
        if *until > now {
            if let Some((other, held)) = current(message.held)
                && other != *attempt
            {
                return fault(format!(
                    "delivery {attempt} until {until} came at {now}, and delivery {other} is held until {held}"
                ));
            }
            message.held = Some((*attempt, *until));
        }
        message.promised = true;
        self.tally.deliveries += 1;
        self.tally.redeliveries += u64::from(*attempt > 1);
        self.alone_in_partition(key, now)
    }

    /// Of a partition, one message is held at a time.
    fn alone_in_partition(&mut self, key: &str, now: u64) -> Result<()> {
        let is_held = |key: &str| {
            let held = self.all.get(key).and_then(|message| message.held);
            held.is_some_and(|(_, until)| until > now)
        };
        let Some(partition) = self.all.get(key).and_then(|message| message.partition.clone()) else {
            return Ok(());
        };
        let last = self.partitions.get(&partition);
        if let Some(last) = last.filter(|last| *last != key && is_held(last) && is_held(key)) {
            return Err(Fault::new(format!("of partition {partition}, {last} and {key} are held at once")));
        }
        self.partitions.insert(partition, key.to_owned());
        Ok(())
    }

    /// Somebody is about to settle: from now on it is not certain that the delivery is held.
    pub fn asks_settle(&mut self, delivery: &Delivery, op: Op) {
        let Some(message) = self.all.get_mut(&delivery.key) else { return };
        message.held = message.held.filter(|(attempt, _)| *attempt != delivery.attempt);
        message.ack_asked |= op == Op::Ack;
    }

    /// A settlement was answered.
    pub fn settled(&mut self, delivery: &Delivery, op: Op, outcome: Outcome, now: u64) -> Result<()> {
        let Delivery { key, attempt, until, .. } = delivery;
        let fault = |text: String| Err(Fault::new(format!("key {key}, delivery {attempt}: {text}")));
        let message = self.all.entry(key.clone()).or_default();
        let newer =
            message.seen.last_key_value().map(|(newest, _)| *newest).filter(|newest| newest > attempt);
        match (op, outcome) {
            // An ack without an answer may have ended it; another ack would be answered the same.
            (Op::Nack | Op::Extend, Outcome::Lost) if message.ack_asked => self.tally.lost += 1,
            (_, Outcome::Lost) if *until > now => {
                return fault(format!("{op:?} came too late at {now}, though it is held until {until}"));
            }
            (_, Outcome::Lost) => self.tally.lost += 1,
            (Op::Ack, _) if newer.is_some() => {
                return fault(format!("an ack counts, though delivery {newer:?} came"));
            }
            (Op::Ack, _) => {
                if message.acked.replace(*attempt).is_none() {
                    self.unfinished = self.unfinished.saturating_sub(1);
                }
                self.tally.acks += 1;
            }
            (Op::Nack, _) => self.tally.nacks += 1,
            (Op::Extend, Outcome::Until(until)) => {
                // The answer may be told late, when it has ended and the next delivery is known already.
                if newer.is_none() {
                    message.held = Some((*attempt, until));
                }
                self.tally.extensions += 1;
            }
            (Op::Extend, _) => return fault("an extension does not tell until when".to_owned()),
        }
        Ok(())
    }

    /// Everything was drained and acknowledged, and these are the dead letters: whether all that was promised is somewhere.
    /// Tells how many messages are gone by an acknowledgement without an answer.
    pub fn close(&self, dead: &HashSet<String>) -> Result<u64> {
        let mut unknown = 0;
        for (key, message) in &self.all {
            let is_dead = message.msg_id.as_ref().is_some_and(|msg_id| dead.contains(msg_id));
            match (is_dead, message.acked) {
                (true, Some(_)) => {
                    return Err(Fault::new(format!("key {key} was acked, and is a dead letter")));
                }
                (false, None) if message.promised && !message.ack_asked => {
                    return Err(Fault::new(format!(
                        "key {key} was answered {:?}, never acked, and is gone; deliveries: {:?}",
                        message.msg_id,
                        message.seen.keys()
                    )));
                }
                (false, None) if message.promised => unknown += 1,
                _ => {}
            }
        }
        Ok(unknown)
    }

    /// A key that was sent before, if there is one.
    pub fn any_key(&self, number: u64) -> Option<(String, Option<String>)> {
        let count = u64::try_from(self.keys.len()).ok().filter(|count| *count > 0)?;
        let key = self.keys.get(usize::try_from(number % count).ok()?)?;
        Some((key.clone(), self.all.get(key)?.partition.clone()))
    }

    /// About how many messages are neither acknowledged nor dead.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }
}
