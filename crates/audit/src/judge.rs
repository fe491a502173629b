//! The comparison of what is there after a crash with what may be there.

use std::collections::{BTreeMap, HashMap};

use crate::line::Call;
use crate::standing::Standing;
use crate::world::{Entry, Step, World, has_content};
use crate::{Fault, Result};

/// On which side of a call its messages are found: each names one of them as the witness.
#[derive(Default)]
struct Sides {
    before: Option<String>,
    after: Option<String>,
}

impl World {
    /// Checks a whole listing, and takes it for the truth from then on.
    pub(crate) fn judge(&mut self, mut listing: HashMap<String, Standing>) -> Result<()> {
        self.tally.listings += 1;
        self.tally.listed += listing.len() as u64;
        let mut open = self.open_steps();
        let mut claims = self.open_claims();
        let mut sides: BTreeMap<u64, Sides> = BTreeMap::new();
        let mut keys: Vec<String> = self.entries.keys().cloned().collect();
        keys.sort();
        for key in keys {
            let found = listing.remove(&key);
            let entry = self.entries.get(&key).cloned().unwrap_or_default();
            let mut steps = entry.steps.clone();
            if steps.is_empty() {
                steps.push(Step { call: 0, standing: None, solid: true });
            }
            steps.extend(open.remove(&key).unwrap_or_default());
            self.place(&key, &entry, &steps, found.as_ref(), &mut claims, &mut sides)?;
            self.fix(&key, found);
        }
        if let Some((key, standing)) = listing.iter().next() {
            return Err(Fault::new(format!("{key} is there, but nobody ever asked for it: {standing:?}")));
        }
        self.weigh(&sides)?;
        self.pending.clear();
        self.recent.clear();
        Ok(())
    }

    /// Finds out which of the possible steps a message is at, and so which calls are in.
    fn place(
        &mut self,
        key: &str,
        entry: &Entry,
        steps: &[Step],
        found: Option<&Standing>,
        claims: &mut HashMap<String, usize>,
        sides: &mut BTreeMap<u64, Sides>,
    ) -> Result<()> {
        let same = |step: &Step| match (found, &step.standing) {
            (Some(found), Some(told)) => found.fits(told),
            (found, told) => found.is_none() && told.is_none(),
        };
        let first = steps.iter().position(same);
        let last = steps.iter().rposition(same);
        let (Some(first), Some(last)) = (first, last) else {
            if found.is_none() && entry.forgettable() {
                self.tally.forgotten += 1;
                return Ok(());
            }
            if let Some(found) = found
                && self.claimed(key, steps, found, claims)?
            {
                return Ok(());
            }
            let expected: Vec<_> = steps.iter().map(|step| &step.standing).collect();
            return Err(Fault::new(format!(
                "{key} stands as {found:?}, but may only be one of {expected:?}"
            )));
        };
        for (place, step) in steps.iter().enumerate().filter(|(_, step)| step.call > 0) {
            let sides = sides.entry(step.call).or_default();
            if last < place {
                sides.before.get_or_insert_with(|| key.to_owned());
            } else if first >= place {
                sides.after.get_or_insert_with(|| key.to_owned());
            }
        }
        Ok(())
    }

    /// Whether a message has a lease of a call whose answer nobody saw.
    fn claimed(
        &mut self,
        key: &str,
        steps: &[Step],
        found: &Standing,
        claims: &mut HashMap<String, usize>,
    ) -> Result<bool> {
        let Some(lease) = found.lease().cloned() else { return Ok(false) };
        let Some(left) = claims.get_mut(&lease.owner) else { return Ok(false) };
        let unseen = Standing::unseen();
        let before = steps.iter().rev().map(|step| step.standing.as_ref()).find_map(|before| {
            let before = before.or_else(|| (!has_content(key)).then_some(&unseen))?;
            let free = before.lease().is_none()
                && before.state == if has_content(key) { "processing" } else { "seen" };
            (free && found.fits(&before.granted(&lease.owner, lease.fence, 0))).then(|| before.clone())
        });
        let Some(before) = before else { return Ok(false) };
        if *left == 0 {
            return Err(Fault::new(format!("{key} was given out beyond what its claim asked for")));
        }
        *left -= 1;
        self.fenced(key, lease.fence, &before)?;
        Ok(true)
    }

    /// What the calls without an answer make of messages, if they happened.
    fn open_steps(&self) -> HashMap<String, Vec<Step>> {
        let mut open: HashMap<String, Vec<Step>> = HashMap::new();
        let mut add = |call: u64, key: &String, make: &dyn Fn(Option<&Standing>) -> Option<Standing>| {
            let steps = open.entry(key.clone()).or_default();
            let known = self.entries.get(key).and_then(Entry::now);
            let before = steps.last().map_or(known, |step| step.standing.as_ref());
            let standing = make(before);
            if standing.as_ref() != before {
                steps.push(Step { call, standing, solid: true });
            }
        };
        for (id, call) in &self.pending {
            match call {
                Call::Accept(messages) => messages.iter().for_each(|message| {
                    let make = |before: Option<&Standing>| {
                        Some(before.cloned().unwrap_or_else(|| Standing::accepted(&message.uid)))
                    };
                    add(*id, &message.key, &make);
                }),
                Call::Work { settlements, .. } => settlements.iter().for_each(|(verdict, key, fence)| {
                    let make = |before: Option<&Standing>| {
                        before.map(|before| before.settled(verdict, *fence, has_content(key)).0)
                    };
                    add(*id, key, &make);
                }),
                Call::Extend(extensions) => extensions.iter().for_each(|(key, fence)| {
                    let make = |before: Option<&Standing>| before.map(|before| before.extended(*fence, 0));
                    add(*id, key, &make);
                }),
                Call::Operate(orders) => orders.iter().for_each(|(action, key)| {
                    let make =
                        |before: Option<&Standing>| before.and_then(|before| before.operated(action).0);
                    add(*id, key, &make);
                }),
                Call::Begin { .. } | Call::Upkeep => {}
            }
        }
        open
    }

    /// The owners of leases that calls without an answer may have got, with how many.
    fn open_claims(&self) -> HashMap<String, usize> {
        let claims = self.pending.values().filter_map(|call| match call {
            Call::Work { owner, count, .. } => Some((owner.clone(), *count)),
            Call::Begin { owner, keys } => Some((owner.clone(), keys.len())),
            _ => None,
        });
        claims.collect()
    }

    /// A call is in as a whole, or not at all.
    fn weigh(&mut self, sides: &BTreeMap<u64, Sides>) -> Result<()> {
        for (id, sides) in sides {
            if let (Some(before), Some(after)) = (&sides.before, &sides.after) {
                let call = self.pending.get(id).or_else(|| self.recent.get(id));
                return Err(Fault::new(format!(
                    "half a call is there: {after} shows it, {before} does not\n  call: {call:?}"
                )));
            }
            if self.pending.contains_key(id) {
                self.tally.kept += u64::from(sides.after.is_some());
                self.tally.dropped += u64::from(sides.before.is_some());
            }
        }
        Ok(())
    }
}
