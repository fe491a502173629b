//! Taking in, beginning, working, extending.

use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Begin, Begun, Claim, Extended, Extension, Hold, Keep, Namespace, Settled, Settlement,
    Span, Store, Topic, Topics, Verdict,
};

use super::{Caller, LOOSE_MAX, OPEN_MAX};
use crate::Failure;
use crate::held::{Held, Known, LOOSE, take};
use crate::load::LEASE;
use crate::say;

/// A retry time that is past at once, and one that does not pass during a campaign.
const NEAR: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(300 * 24 * 60 * 60);
/// Settlements that can be repeated.
const REPEATS_MAX: usize = 16;

impl Caller<'_> {
    /// One message or a batch, some of them repeats of keys that are known.
    pub(super) async fn accept(&mut self) -> Result<(), Failure> {
        let count = if self.rng.below(2) == 0 { 1 } else { 2 + self.rng.below(15) };
        let mut items = Vec::new();
        for _ in 0..count {
            let known = match self.repeated() {
                Some(known) => known,
                None => {
                    let loose = self.loose < LOOSE_MAX && self.rng.below(20) == 0;
                    self.loose += u64::from(loose);
                    let ending = if loose { LOOSE } else { "" };
                    Known { key: self.new_key(Namespace::Inbox, ending)?, uid: self.uid() }
                }
            };
            items.push(self.message(&known)?);
        }
        let told = items.iter().map(|item| {
            let hold = if item.policy.hold.keep == Keep::Window { "loose" } else { "kept" };
            let uid = item.uid.map_or(0, oncebox_core::Uid::as_u128);
            format!("{},{uid:x},{},{hold}", say::key(&item.key), say::hash(item.content.payload.as_bytes()))
        });
        let id = self.call(&format!("accept {}", told.collect::<Vec<_>>().join(" ")));
        let outcomes = self.store.accept(&items).await?;
        let told: Vec<String> = outcomes.iter().map(accepted).collect();
        Self::answer(id, &told);
        self.ready += outcomes.iter().filter(|outcome| matches!(outcome, Accepted::New { .. })).count();
        Ok(())
    }

    /// Sometimes a key that came before, with a uid of its own.
    fn repeated(&mut self) -> Option<Known> {
        if self.rng.below(5) > 0 {
            return None;
        }
        let mut known = match self.rng.below(4) {
            0 => self.messages.held.last().map(|held| held.known.clone()),
            1 => self.messages.dead.last().cloned(),
            2 => self.messages.waiting.last().cloned(),
            _ => self.messages.done.last().cloned(),
        }?;
        known.uid = self.uid();
        (known.has_content() && !known.is_loose()).then_some(known)
    }

    /// Keys without content: new ones, free ones, and some that are taken or done.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        if self.messages.held.len() > OPEN_MAX {
            return Ok(());
        }
        let mut keys = Vec::new();
        for _ in 0..=self.rng.below(4) {
            let known = match self.rng.below(4) {
                0 => take(&mut self.messages.seen, &mut self.rng),
                1 => self.messages.done.last().cloned().filter(|known| !known.has_content()),
                _ => None,
            };
            keys.push(match known {
                Some(known) => known.key,
                None => self.new_key(Namespace::Ledger, "")?,
            });
        }
        let (owner, lease) = (self.owner()?, Span::lease(LEASE)?);
        let hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::from_secs(86_400)) };
        let told: Vec<String> = keys.iter().map(say::key).collect();
        let id = self.call(&format!("begin {:x} {}", owner.as_u128(), told.join(" ")));
        let begins: Vec<_> = keys.into_iter().map(|key| Begin { key, owner, lease, hold }).collect();
        let outcomes = self.store.begin(&begins).await?;
        Self::answer(id, &outcomes.iter().map(begun).collect::<Vec<_>>());
        for (begin, outcome) in begins.into_iter().zip(outcomes) {
            if let Begun::Acquired { uid, lease } = outcome {
                let known = Known { key: begin.key, uid };
                self.messages.held.push(Held { known, owner, fence: lease.fence });
            }
        }
        Ok(())
    }

    /// Settles some, claims some, in one call.
    pub(super) async fn work(&mut self) -> Result<(), Failure> {
        let mut verdicts = Vec::new();
        for _ in 0..self.rng.below(8) {
            let Some(held) = take(&mut self.messages.held, &mut self.rng) else { break };
            let verdict = ["ack", "ack", "ack", "ack", "near", "near", "far", "fail", "release"];
            verdicts.push((held, verdict[usize::try_from(self.rng.below(9)).unwrap_or_default()]));
        }
        let fresh = verdicts.clone();
        if self.rng.below(5) == 0 {
            verdicts.extend(take(&mut self.settled, &mut self.rng));
        }
        let count = if self.messages.held.len() > OPEN_MAX { 0 } else { self.rng.below(9) };
        let owner = self.owner()?;
        let told = verdicts
            .iter()
            .map(|(held, verdict)| format!(" {verdict},{},{}", say::key(&held.known.key), held.fence.get()));
        let told: String = told.collect();
        let id = self.call(&format!("work {:x} {} {count}{told}", owner.as_u128(), self.source));
        let settlements = verdicts.iter().map(settlement).collect::<Result<Vec<_>, _>>()?;
        let mut claims = Vec::new();
        if count > 0 {
            let batch = Batch::new(u32::try_from(count)?)?;
            let mut claim = Claim::new(Namespace::Inbox, owner, Span::lease(LEASE)?, batch);
            claim.topics = Topics::only([Topic::new(self.source.clone())?])?;
            claims.push(claim);
        }
        let worked = self.store.work(&settlements, &claims).await?;
        let deliveries: Vec<_> = worked.deliveries.into_iter().flatten().collect();
        let settled = worked.settled.iter().map(|outcome| say::settled(*outcome).to_owned());
        Self::answer(id, &settled.chain(deliveries.iter().map(say::delivery)).collect::<Vec<_>>());
        for ((held, verdict), outcome) in fresh.into_iter().zip(worked.settled) {
            self.file(held.clone(), verdict, outcome);
            self.settled.push((held, verdict));
        }
        self.settled.drain(..self.settled.len().saturating_sub(REPEATS_MAX));
        self.ready =
            if (deliveries.len() as u64) < count { 0 } else { self.ready.saturating_sub(deliveries.len()) };
        self.messages.held.extend(deliveries.into_iter().map(|delivery| Held {
            known: Known { key: delivery.key, uid: delivery.uid },
            owner,
            fence: delivery.lease.fence,
        }));
        Ok(())
    }

    /// Sorts a settled message in.
    fn file(&mut self, held: Held, verdict: &str, outcome: Settled) {
        let known = held.known;
        match outcome {
            Settled::Done => self.messages.finished(known),
            Settled::Dead { .. } => self.messages.dead.push(known),
            Settled::Retrying { .. } | Settled::Released if !known.has_content() => {
                self.messages.seen.push(known);
            }
            Settled::Retrying { .. } if verdict == "far" => self.messages.waiting.push(known),
            Settled::Retrying { .. } | Settled::Released => self.ready += 1,
            _ => {}
        }
    }

    pub(super) async fn extend(&mut self) -> Result<(), Failure> {
        let extensions: Vec<_> = self.messages.held.iter().rev().take(5).cloned().collect();
        if extensions.is_empty() {
            return Ok(());
        }
        let told =
            extensions.iter().map(|held| format!(" {},{}", say::key(&held.known.key), held.fence.get()));
        let id = self.call(&format!("extend{}", told.collect::<String>()));
        let lease = Span::lease(LEASE)?;
        let extensions: Vec<_> = extensions
            .iter()
            .map(|held| Extension { uid: held.known.uid, owner: held.owner, fence: held.fence, lease })
            .collect();
        let told = self.store.extend(&extensions).await?.into_iter().map(|outcome| match outcome {
            Extended::Until(until) => format!("extended,{}", until.as_millis()),
            Extended::LeaseLost => "lost".to_owned(),
        });
        Self::answer(id, &told.collect::<Vec<_>>());
        Ok(())
    }
}

fn settlement((held, verdict): &(Held, &'static str)) -> Result<Settlement, Failure> {
    let verdict = match *verdict {
        "ack" => Verdict::Ack,
        "near" => Verdict::Abandon { delay: Span::delay(NEAR)?, error: None },
        "far" => Verdict::Abandon { delay: Span::delay(FAR)?, error: None },
        "fail" => Verdict::Fail { reason: oncebox_core::DeadReason::Failed, error: None },
        _ => Verdict::Release,
    };
    Ok(Settlement { uid: held.known.uid, owner: held.owner, fence: held.fence, verdict })
}

fn accepted(outcome: &Accepted) -> String {
    match outcome {
        Accepted::New { receipt, .. } => format!("new,{:x}", receipt.uid.as_u128()),
        Accepted::Duplicate { receipt, .. } => format!("dup,{:x}", receipt.uid.as_u128()),
        Accepted::Saturated { .. } => "saturated".to_owned(),
        _ => "unexpected".to_owned(),
    }
}

fn begun(outcome: &Begun) -> String {
    match outcome {
        Begun::Acquired { uid, lease } => {
            format!("acquired,{:x},{},{}", uid.as_u128(), lease.fence.get(), lease.until.as_millis())
        }
        Begun::Processed(_) => "processed".to_owned(),
        Begun::Busy { .. } => "busy".to_owned(),
        Begun::Invalid => "invalid".to_owned(),
        Begun::Saturated { .. } => "saturated".to_owned(),
        _ => "unexpected".to_owned(),
    }
}
