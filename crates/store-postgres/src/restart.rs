//! After a restart: a mailbox lane does not run far ahead of what was out before (MBX-G-9).
//!
//! On a shared database a restart is a process that begins to serve. The deliveries that are out when it first claims from the mailbox
//! were granted before it began, by whichever process; past the oldest of them this process gives out at most 32 messages of the lane, until
//! that delivery is settled or its visibility ends. What a process has given out since it began is its own knowledge, and no hint: it is
//! kept for as long as an inherited delivery of the lane is out. See ADR 0008.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oncebox_core::limits::MAILBOX_REORDER_MESSAGES_MAX;
use oncebox_core::{Error, Namespace, Topic};
use sqlx::PgConnection;
use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::fault;
use crate::hints::Lane;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// What a process inherited when it began to serve.
#[derive(Default)]
pub(crate) struct Restart {
    /// None until the first claim from the mailbox. Claims go one by one while something inherited is out.
    inherited: Mutex<Option<Inherited>>,
    /// Nothing that was inherited is out any more, and nothing ever will be.
    over: AtomicBool,
    depth_max: AtomicU64,
}

impl Restart {
    /// The most messages that a lane gave out past its oldest inherited delivery.
    pub(crate) fn depth_max(&self) -> u64 {
        self.depth_max.load(Ordering::Relaxed)
    }

    /// Notes what a look gave out of its lanes.
    pub(crate) fn note(&self, inherited: &mut Inherited, given: impl IntoIterator<Item = (Lane, i64)>) {
        for (lane, number) in given {
            let depth = inherited.give(&lane, number);
            self.depth_max.fetch_max(depth, Ordering::Relaxed);
        }
    }
}

/// A delivery that was out when this process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Out {
    uid: Uuid,
    fence: i64,
}

/// Inherited deliveries that are still out, by lane and number, and what was given out past them.
#[derive(Default)]
pub(crate) struct Inherited(HashMap<Lane, Held>);

#[derive(Default)]
struct Held {
    out: BTreeMap<i64, Out>,
    given: BTreeSet<i64>,
}

/// How much a lane may give: per lane as `work_1` takes it, null where nothing holds it back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// So many messages.
    pub(crate) messages: Vec<Option<i64>>,
    /// Up to this number.
    pub(crate) tops: Vec<Option<i64>>,
    /// Below this number any, above it only those that were given out before.
    pub(crate) free_below: Vec<Option<i64>>,
    /// What was given out before.
    pub(crate) again: Vec<i64>,
}

impl Inherited {
    fn add(&mut self, lane: Lane, number: i64, out: Out) {
        self.0.entry(lane).or_default().out.insert(number, out);
    }

    /// Which deliveries of these lanes are believed to be out.
    fn out(&self, lanes: &[Lane]) -> (Vec<Uuid>, Vec<i64>) {
        let held = lanes.iter().filter_map(|lane| self.0.get(lane));
        held.flat_map(|held| held.out.values().map(|out| (out.uid, out.fence))).unzip()
    }

    /// Only these deliveries of the lanes are still out.
    fn retain(&mut self, lanes: &[Lane], still: &BTreeSet<Uuid>) {
        for lane in lanes {
            if let Some(held) = self.0.get_mut(lane) {
                held.out.retain(|_, out| still.contains(&out.uid));
                match held.out.first_key_value() {
                    Some((oldest, _)) => held.given = held.given.split_off(oldest),
                    None => drop(self.0.remove(lane)),
                }
            }
        }
    }

    /// How much lanes may give now, at most `quota` each.
    pub(crate) fn limits(&self, lanes: &[Lane], quota: i64) -> Limits {
        let mut limits = Limits::default();
        for lane in lanes {
            let held = self.0.get(lane).and_then(|held| Some((held, *held.out.first_key_value()?.0)));
            let Some((held, oldest)) = held else {
                limits.messages.push(None);
                limits.tops.push(None);
                limits.free_below.push(None);
                continue;
            };
            let left = MAILBOX_REORDER_MESSAGES_MAX.saturating_sub(held.given.len());
            let left = i64::try_from(left).unwrap_or(i64::MAX);
            if left > 0 {
                limits.messages.push(Some(left.min(quota)));
                limits.tops.push(None);
                limits.free_below.push(None);
            } else {
                limits.messages.push(Some(quota));
                limits.tops.push(Some(held.given.last().copied().unwrap_or(oldest)));
                limits.free_below.push(Some(oldest));
                limits.again.extend(&held.given);
            }
        }
        limits
    }

    /// Notes that a message was given out. Answers how many were, past the oldest inherited delivery of its lane.
    fn give(&mut self, lane: &Lane, number: i64) -> u64 {
        let Some(held) = self.0.get_mut(lane) else { return 0 };
        if held.out.first_key_value().is_some_and(|(oldest, _)| number > *oldest) {
            held.given.insert(number);
        }
        held.given.len() as u64
    }
}

impl PostgresStore {
    /// What holds lanes of a namespace back, if anything does: what was inherited and is still out.
    pub(crate) async fn inherited(
        &self,
        connection: &mut PgConnection,
        space: Namespace,
        lanes: &[Lane],
    ) -> Result<Option<MutexGuard<'_, Option<Inherited>>>, Error> {
        if space != Namespace::Mailbox || self.restart.over.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut inherited = self.restart.inherited.lock().await;
        if inherited.is_none() {
            *inherited = Some(self.inherit(connection).await?);
        }
        let Some(known) = inherited.as_mut() else { return Ok(None) };
        let (uids, fences) = known.out(lanes);
        if !uids.is_empty() {
            let still = self.sql.still_out.query().bind(self.time()).bind(&uids).bind(&fences);
            let rows = still.fetch_all(&mut *connection).await.map_err(fault::told)?;
            let still = rows.iter().map(|row| Cells::new(row).next());
            known.retain(lanes, &still.collect::<Result<_, Error>>()?);
        }
        if known.0.is_empty() {
            self.restart.over.store(true, Ordering::Release);
            return Ok(None);
        }
        Ok(Some(inherited))
    }

    /// The deliveries of the mailbox that are out.
    async fn inherit(&self, connection: &mut PgConnection) -> Result<Inherited, Error> {
        let rows = self.sql.inherited.query().bind(self.time()).fetch_all(connection).await;
        let mut inherited = Inherited::default();
        for row in rows.map_err(fault::told)? {
            let mut cells = Cells::new(&row);
            let (uid, fence, number) = (cells.next()?, cells.next()?, cells.next()?);
            let lane = (Topic::new(cells.next::<String>()?)?, cells.next()?);
            inherited.add(lane, number, Out { uid, fence });
        }
        Ok(inherited)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use oncebox_core::Topic;
    use uuid::Uuid;

    use super::{Inherited, Lane, Out};

    fn lane(name: &str) -> Lane {
        (Topic::new(name).unwrap(), 0)
    }

    fn uid(number: i64) -> Uuid {
        Uuid::from_u128(u128::try_from(number).unwrap())
    }

    fn with(numbers: &[i64]) -> Inherited {
        let mut inherited = Inherited::default();
        for number in numbers {
            inherited.add(lane("a"), *number, Out { uid: uid(*number), fence: *number });
        }
        inherited
    }

    /// Holds: MBX-G-9, RULE-11.
    #[test]
    fn a_lane_gives_32_past_its_oldest_inherited_delivery_and_those_again() {
        let mut inherited = with(&[10, 12]);
        let both = [lane("a"), lane("b")];
        let limits = inherited.limits(&both, 20);
        assert_eq!(limits.messages, [Some(20), None], "another lane is not held back");
        for number in 13..=44 {
            inherited.give(&lane("a"), number);
        }
        assert_eq!(inherited.give(&lane("a"), 20), 32, "each counts once");
        assert_eq!(inherited.give(&lane("a"), 9), 32, "what is before it does not count");
        let limits = inherited.limits(&both, 20);
        assert_eq!((limits.tops[0], limits.free_below[0]), (Some(44), Some(10)));
        assert_eq!(limits.again, (13..=44).collect::<Vec<_>>());
        inherited.retain(&both, &BTreeSet::from([uid(12)]));
        assert_eq!(inherited.limits(&both, 20).free_below[0], Some(12), "all of it is past the next one too");
        inherited.retain(&both, &BTreeSet::new());
        assert_eq!(inherited.limits(&both, 20).messages, [None, None]);
    }

    #[test]
    fn what_a_lane_may_still_give_is_asked_for() {
        let mut inherited = with(&[10]);
        for number in 11..=40 {
            inherited.give(&lane("a"), number);
        }
        let limits = inherited.limits(&[lane("a")], 20);
        assert_eq!((limits.messages[0], limits.tops[0]), (Some(2), None));
    }
}
