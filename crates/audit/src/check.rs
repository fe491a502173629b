//! Compares the listing after a crash with the states that the model allows.

use std::collections::{BTreeMap, HashMap};

use crate::model::{Entry, Model, Step, has_content};
use crate::protocol::Call;
use crate::record::MessageRecord;
use crate::{Result, Violation};

/// Evidence whether a call was carried out: a message in the state before the call, and one in the state after it.
#[derive(Default)]
struct CallEvidence {
    before: Option<String>,
    after: Option<String>,
}

impl Model {
    /// Checks a complete listing. From then on, the listing is the state of the model.
    pub(crate) fn check_listing(&mut self, mut listing: HashMap<String, MessageRecord>) -> Result<()> {
        self.tally.listings += 1;
        self.tally.listed += listing.len() as u64;
        let mut open = self.open_steps();
        let mut claims = self.open_claims();
        let mut evidence: BTreeMap<u64, CallEvidence> = BTreeMap::new();
        let mut keys: Vec<String> = self.entries.keys().cloned().collect();
        keys.sort();
        for key in keys {
            let found = listing.remove(&key);
            let entry = self.entries.get(&key).cloned().unwrap_or_default();
            let mut steps = entry.steps.clone();
            if steps.is_empty() {
                steps.push(Step { call: 0, record: None, durable: true });
            }
            steps.extend(open.remove(&key).unwrap_or_default());
            self.match_message(&key, &entry, &steps, found.as_ref(), &mut claims, &mut evidence)?;
            self.set_from_listing(&key, found);
        }
        if let Some((key, record)) = listing.iter().next() {
            return Err(Violation::new(format!("{key} exists, but no call created it: {record:?}")));
        }
        self.check_atomicity(&evidence)?;
        self.pending.clear();
        self.recent.clear();
        Ok(())
    }

    /// Finds the step that a message is at, and notes which calls that proves or disproves.
    fn match_message(
        &mut self,
        key: &str,
        entry: &Entry,
        steps: &[Step],
        found: Option<&MessageRecord>,
        claims: &mut HashMap<String, usize>,
        evidence: &mut BTreeMap<u64, CallEvidence>,
    ) -> Result<()> {
        let same = |step: &Step| match (found, &step.record) {
            (Some(found), Some(expected)) => found.matches(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        let first = steps.iter().position(same);
        let last = steps.iter().rposition(same);
        let (Some(first), Some(last)) = (first, last) else {
            if found.is_none() && entry.may_be_purged() {
                self.tally.purged += 1;
                return Ok(());
            }
            if let Some(found) = found
                && self.matches_open_claim(key, steps, found, claims)?
            {
                return Ok(());
            }
            let expected: Vec<_> = steps.iter().map(|step| &step.record).collect();
            return Err(Violation::new(format!("found {key} as {found:?}, expected one of {expected:?}")));
        };
        for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.call > 0) {
            let evidence = evidence.entry(step.call).or_default();
            if last < index {
                evidence.before.get_or_insert_with(|| key.to_owned());
            } else if first >= index {
                evidence.after.get_or_insert_with(|| key.to_owned());
            }
        }
        Ok(())
    }

    /// Whether the lease of a message was granted to a call without an answer.
    fn matches_open_claim(
        &mut self,
        key: &str,
        steps: &[Step],
        found: &MessageRecord,
        claims: &mut HashMap<String, usize>,
    ) -> Result<bool> {
        let Some(lease) = found.lease().cloned() else { return Ok(false) };
        let Some(left) = claims.get_mut(&lease.owner) else { return Ok(false) };
        let unrecorded = MessageRecord::unrecorded();
        let before = steps.iter().rev().map(|step| step.record.as_ref()).find_map(|before| {
            let before = before.or_else(|| (!has_content(key)).then_some(&unrecorded))?;
            let free = before.lease().is_none()
                && before.state == if has_content(key) { "processing" } else { "seen" };
            (free && found.matches(&before.granted(&lease.owner, lease.fence, 0))).then(|| before.clone())
        });
        let Some(before) = before else { return Ok(false) };
        if *left == 0 {
            return Err(Violation::new(format!("{key} was delivered beyond the limit of its claim")));
        }
        *left -= 1;
        self.record_fence(key, lease.fence, &before)?;
        Ok(true)
    }

    /// The states that calls without an answer lead to, by key.
    fn open_steps(&self) -> HashMap<String, Vec<Step>> {
        let mut open: HashMap<String, Vec<Step>> = HashMap::new();
        let mut add =
            |call: u64, key: &String, make: &dyn Fn(Option<&MessageRecord>) -> Option<MessageRecord>| {
                let steps = open.entry(key.clone()).or_default();
                let known = self.entries.get(key).and_then(Entry::current);
                let before = steps.last().map_or(known, |step| step.record.as_ref());
                let record = make(before);
                if record.as_ref() != before {
                    steps.push(Step { call, record, durable: true });
                }
            };
        for (id, call) in &self.pending {
            match call {
                Call::Accept(messages) => messages.iter().for_each(|message| {
                    let make = |before: Option<&MessageRecord>| {
                        Some(before.cloned().unwrap_or_else(|| MessageRecord::accepted(&message.uid)))
                    };
                    add(*id, &message.key, &make);
                }),
                Call::Work { settlements, .. } => settlements.iter().for_each(|(verdict, key, fence)| {
                    let make = |before: Option<&MessageRecord>| {
                        before.map(|before| before.settled(verdict, *fence, has_content(key)).0)
                    };
                    add(*id, key, &make);
                }),
                Call::Extend(extensions) => extensions.iter().for_each(|(key, fence)| {
                    let make =
                        |before: Option<&MessageRecord>| before.map(|before| before.extended(*fence, 0));
                    add(*id, key, &make);
                }),
                Call::Operate(orders) => orders.iter().for_each(|(action, key)| {
                    let make =
                        |before: Option<&MessageRecord>| before.and_then(|before| before.operated(action).0);
                    add(*id, key, &make);
                }),
                Call::Begin { .. } | Call::Maintain => {}
            }
        }
        open
    }

    /// The owners of the calls without an answer that may have acquired leases, and how many at most.
    fn open_claims(&self) -> HashMap<String, usize> {
        let claims = self.pending.values().filter_map(|call| match call {
            Call::Work { owner, count, .. } => Some((owner.clone(), *count)),
            Call::Begin { owner, keys } => Some((owner.clone(), keys.len())),
            _ => None,
        });
        claims.collect()
    }

    /// Checks that each call was carried out completely or not at all.
    fn check_atomicity(&mut self, evidence: &BTreeMap<u64, CallEvidence>) -> Result<()> {
        for (id, evidence) in evidence {
            if let (Some(before), Some(after)) = (&evidence.before, &evidence.after) {
                let call = self.pending.get(id).or_else(|| self.recent.get(id));
                return Err(Violation::new(format!(
                    "a call was carried out partially: for {after}, but not for {before}\n  call: {call:?}"
                )));
            }
            if self.pending.contains_key(id) {
                self.tally.applied += u64::from(evidence.after.is_some());
                self.tally.not_applied += u64::from(evidence.before.is_some());
            }
        }
        Ok(())
    }
}
