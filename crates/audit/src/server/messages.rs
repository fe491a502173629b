//! Checks mailbox messages: none is lost, none is delivered after its ack, and none is held twice at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{ServerTally, payload};
use crate::{Result, Violation};

/// A delivery, from a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedDelivery {
    /// The idempotency key. The load uses each key in one topic only.
    pub key: String,
    /// The message id.
    pub msg_id: String,
    /// The delivery receipt.
    pub receipt: String,
    /// Number of the delivery, from 1.
    pub attempt: u32,
    /// When the lease expires; zero if unknown.
    pub until: u64,
}

/// A request about a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedOp {
    /// Acknowledges the delivery.
    Ack,
    /// Rejects the delivery.
    Nack,
    /// Extends its lease.
    Extend,
}

/// The outcome of such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedOutcome {
    /// The request was carried out.
    Applied,
    /// The lease was extended until then.
    Until(u64),
    /// The lease was lost.
    Lost,
}

#[derive(Debug, Default)]
struct Message {
    partition: Option<String>,
    msg_id: Option<String>,
    /// Number of sends that were started.
    sends: u64,
    /// A response has confirmed that the message exists: it must not be lost.
    confirmed: bool,
    accepted: bool,
    /// The receipts by number of delivery.
    receipts: BTreeMap<u32, String>,
    /// The delivery that certainly holds the message, and until when.
    held: Option<(u32, u64)>,
    /// The delivery that was acknowledged.
    acked: Option<u32>,
    /// An acknowledgement was sent.
    ack_started: bool,
}

/// The history of all messages.
#[derive(Debug, Default)]
pub struct MessageHistory {
    all: HashMap<String, Message>,
    /// The keys in the order of their first send.
    keys: Vec<String>,
    /// The latest delivered key of each partition.
    partitions: HashMap<String, String>,
    unfinished: u64,
    pub(super) tally: ServerTally,
}

impl MessageHistory {
    /// Records that a send is about to start. Returns whether the message is already confirmed.
    pub fn before_send(&mut self, key: &str, partition: Option<&str>) -> bool {
        let message = self.all.entry(key.to_owned()).or_default();
        if message.sends == 0 {
            self.keys.push(key.to_owned());
            self.unfinished += 1;
        }
        message.sends += 1;
        message.partition = partition.map(str::to_owned);
        message.confirmed
    }

    /// Records the response to a send; `known` is the result of [`MessageHistory::before_send`].
    pub fn after_send(&mut self, key: &str, known: bool, msg_id: &str, duplicate: bool) -> Result<()> {
        let message = self.all.entry(key.to_owned()).or_default();
        let first = message.msg_id.get_or_insert_with(|| msg_id.to_owned());
        if first != msg_id {
            return Err(Violation::new(format!(
                "key {key} was answered with message {first}, and then with {msg_id}"
            )));
        }
        if known && !duplicate {
            return Err(Violation::new(format!("key {key} is known, but a repeat was accepted as new")));
        }
        if duplicate && message.sends < 2 {
            return Err(Violation::new(format!("key {key} was sent once, but was answered as a duplicate")));
        }
        if !duplicate && std::mem::replace(&mut message.accepted, true) {
            return Err(Violation::new(format!("key {key} was accepted as new twice")));
        }
        message.confirmed = true;
        *(if duplicate { &mut self.tally.duplicates } else { &mut self.tally.accepted }) += 1;
        Ok(())
    }

    /// Records a delivery.
    pub fn after_receive(&mut self, delivery: &ObservedDelivery, received: &[u8], now: u64) -> Result<()> {
        let ObservedDelivery { key, msg_id, receipt, attempt, until } = delivery;
        let violation = |text: String| Err(Violation::new(format!("key {key}, message {msg_id}: {text}")));
        let Some(message) = self.all.get_mut(key).filter(|message| message.sends > 0) else {
            return violation("no client sent it".to_owned());
        };
        if message.msg_id.get_or_insert_with(|| msg_id.clone()) != msg_id {
            return violation(format!("the send was answered with message {:?}", message.msg_id));
        }
        if received != payload(key).as_bytes() {
            return violation("its payload differs from the one that was sent".to_owned());
        }
        if message.acked.is_some_and(|acked| *attempt > acked) {
            return violation(format!(
                "delivery {attempt} arrived after delivery {:?} was acked",
                message.acked
            ));
        }
        if message.receipts.insert(*attempt, receipt.clone()).is_some_and(|earlier| earlier != *receipt) {
            return violation(format!("two deliveries have the number {attempt}"));
        }
        let current = |held: Option<(u32, u64)>| held.filter(|(_, until)| *until > now);
        if *until > now {
            if let Some((other, held)) = current(message.held)
                && other != *attempt
            {
                return violation(format!(
                    "delivery {attempt} until {until} arrived at {now}, but delivery {other} is held until {held}"
                ));
            }
            message.held = Some((*attempt, *until));
        }
        message.confirmed = true;
        self.tally.deliveries += 1;
        self.tally.redeliveries += u64::from(*attempt > 1);
        self.check_partition(key, now)
    }

    /// Checks that only one message of a partition is held at a time.
    fn check_partition(&mut self, key: &str, now: u64) -> Result<()> {
        let is_held = |key: &str| {
            let held = self.all.get(key).and_then(|message| message.held);
            held.is_some_and(|(_, until)| until > now)
        };
        let Some(partition) = self.all.get(key).and_then(|message| message.partition.clone()) else {
            return Ok(());
        };
        let last = self.partitions.get(&partition);
        if let Some(last) = last.filter(|last| *last != key && is_held(last) && is_held(key)) {
            return Err(Violation::new(format!("partition {partition}: {last} and {key} are held at once")));
        }
        self.partitions.insert(partition, key.to_owned());
        Ok(())
    }

    /// Records that a settlement is about to be sent: from now on, the delivery is not certainly held.
    pub fn before_settle(&mut self, delivery: &ObservedDelivery, op: ObservedOp) {
        let Some(message) = self.all.get_mut(&delivery.key) else { return };
        message.held = message.held.filter(|(attempt, _)| *attempt != delivery.attempt);
        message.ack_started |= op == ObservedOp::Ack;
    }

    /// Records the response to a settlement.
    pub fn after_settle(
        &mut self,
        delivery: &ObservedDelivery,
        op: ObservedOp,
        outcome: ObservedOutcome,
        now: u64,
    ) -> Result<()> {
        let ObservedDelivery { key, attempt, until, .. } = delivery;
        let violation = |text: String| Err(Violation::new(format!("key {key}, delivery {attempt}: {text}")));
        let message = self.all.entry(key.clone()).or_default();
        let newer =
            message.receipts.last_key_value().map(|(newest, _)| *newest).filter(|newest| newest > attempt);
        match (op, outcome) {
            // An ack without a response may have ended the delivery; a repeated ack would succeed.
            (ObservedOp::Nack | ObservedOp::Extend, ObservedOutcome::Lost) if message.ack_started => {
                self.tally.lost += 1;
            }
            (_, ObservedOutcome::Lost) if *until > now => {
                return violation(format!(
                    "{op:?} was rejected at {now}, although the delivery is held until {until}"
                ));
            }
            (_, ObservedOutcome::Lost) => self.tally.lost += 1,
            (ObservedOp::Ack, _) if newer.is_some() => {
                return violation(format!("an ack was accepted, although delivery {newer:?} followed"));
            }
            (ObservedOp::Ack, _) => {
                if message.acked.replace(*attempt).is_none() {
                    self.unfinished = self.unfinished.saturating_sub(1);
                }
                self.tally.acks += 1;
            }
            (ObservedOp::Nack, _) => self.tally.nacks += 1,
            (ObservedOp::Extend, ObservedOutcome::Until(until)) => {
                // The response may be recorded late, when the lease has ended and the next delivery is recorded.
                if newer.is_none() {
                    message.held = Some((*attempt, until));
                }
                self.tally.extensions += 1;
            }
            (ObservedOp::Extend, _) => {
                return violation("an extension was answered without the new end".to_owned());
            }
        }
        Ok(())
    }

    /// Checks, after the mailbox was drained, that every confirmed message was acknowledged or is one of the dead
    /// letters. Returns the number of messages that only an acknowledgement without a response can have ended.
    pub fn check_complete(&self, dead: &HashSet<String>) -> Result<u64> {
        let mut unknown = 0;
        for (key, message) in &self.all {
            let is_dead = message.msg_id.as_ref().is_some_and(|msg_id| dead.contains(msg_id));
            match (is_dead, message.acked) {
                (true, Some(_)) => {
                    return Err(Violation::new(format!("key {key} was acked, but is a dead letter")));
                }
                (false, None) if message.confirmed && !message.ack_started => {
                    return Err(Violation::new(format!(
                        "key {key} is lost: it was answered with message {:?} and never acked; deliveries: {:?}",
                        message.msg_id,
                        message.receipts.keys()
                    )));
                }
                (false, None) if message.confirmed => unknown += 1,
                _ => {}
            }
        }
        Ok(unknown)
    }

    /// A key that was sent before, with its partition; none if there is none.
    pub fn any_key(&self, number: u64) -> Option<(String, Option<String>)> {
        let count = u64::try_from(self.keys.len()).ok().filter(|count| *count > 0)?;
        let key = self.keys.get(usize::try_from(number % count).ok()?)?;
        Some((key.clone(), self.all.get(key)?.partition.clone()))
    }

    /// Estimated number of messages that are neither acknowledged nor dead.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }
}
