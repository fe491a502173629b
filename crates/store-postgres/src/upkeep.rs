//! Upkeep: what time has brought, and what is forgotten, in bounded pieces.

use std::time::Duration;

use oncebox_core::{Budget, Error, Timestamp, Upkept};
use sqlx::PgConnection;

use crate::codes::{millis, moment};
use crate::fault;
use crate::hints::Effects;
use crate::locked::{Failure, Locked};
use crate::rows::{Cells, shelf};
use crate::slow::STEP_ITEMS_MAX;
use crate::store::PostgresStore;

/// Messages that time happens to at once, at most.
#[expect(clippy::cast_possible_truncation, reason = "a thousand")]
pub(crate) const TICK_ITEMS: u32 = STEP_ITEMS_MAX as u32;

/// What one upkeep did.
struct Done {
    forgotten: u64,
    /// Dead letters among them.
    letters: u64,
    /// When there is more to do.
    next_due: Option<Timestamp>,
}

impl PostgresStore {
    /// Lets time happen to some messages; answers how many they were. Who collides with others leaves it to them.
    pub(crate) async fn tick(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
        locked: Locked,
    ) -> Result<usize, Error> {
        match self.slow(self.wait).let_time_pass(connection, items_max, locked).await {
            Ok((ticked, events)) => {
                let mut effects = Effects::default();
                effects.add(events);
                self.hints.note(effects);
                Ok(ticked)
            }
            Err(Failure::Collision | Failure::Locked) => Ok(0),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Lets time happen in bounded steps, to so many messages at most. Answers whether that was all.
    async fn tick_all(&self, connection: &mut PgConnection, items_max: u32) -> Result<bool, Error> {
        let mut left = items_max;
        while left > 0 {
            let step = left.min(TICK_ITEMS);
            if self.tick(connection, step, Locked::PassOver).await? < step as usize {
                return Ok(true);
            }
            left -= step;
        }
        Ok(false)
    }

    /// Before a reading that shows what time has brought.
    pub(crate) async fn catch_up(&self, connection: &mut PgConnection) -> Result<(), Error> {
        self.tick(connection, TICK_ITEMS, Locked::PassOver).await.map(drop)
    }

    pub(crate) async fn keep_up(&self, budget: Budget) -> Result<Upkept, Error> {
        let mut connection = self.connection().await?;
        let done = self.work_off(&mut connection, &budget).await;
        let done = Self::give_back(connection, done)?;
        let mut upkept = self.hints.ended.take();
        (upkept.forgotten, upkept.dead_letters_forgotten) = (done.forgotten, done.letters);
        upkept.next_due = done.next_due;
        Ok(upkept)
    }

    /// Lets time happen and forgets, as far as the budget goes.
    async fn work_off(&self, connection: &mut PgConnection, budget: &Budget) -> Result<Done, Error> {
        // Mostly there is nothing to do, and that is one statement.
        let (now, mut next_due) = self.next_due(connection, budget).await?;
        let (mut forgotten, mut letters) = (0, 0);
        if next_due.is_some_and(|due| due <= now) {
            if self.tick_all(connection, budget.items_max).await? {
                (forgotten, letters) = self.forget(connection, budget).await?;
            }
            (_, next_due) = self.next_due(connection, budget).await?;
        }
        if let Some(retention) = &budget.dead_letters {
            let left = u64::from(budget.items_max).saturating_sub(forgotten);
            let trimmed = self.forget_letters(connection, retention, now, left).await?;
            (forgotten, letters) = (forgotten + trimmed.forgotten, letters + trimmed.forgotten);
            // What is over its number has no due time of its own: an upkeep that ran out of budget is made again.
            let more = (forgotten > 0 && trimmed.forgotten == left).then_some(now);
            next_due = next_due.into_iter().chain(trimmed.next_due).chain(more).min();
        }
        Ok(Done { forgotten, letters, next_due })
    }

    /// Forgets by age; answers how many, and how many dead letters are among them.
    async fn forget(&self, connection: &mut PgConnection, budget: &Budget) -> Result<(u64, u64), Error> {
        let (mut forgotten, mut letters) = (0, 0);
        for (name, keep) in retentions(budget) {
            let mut from = name;
            if name != shelf::DONE {
                self.free(connection, name, budget.items_max).await?;
                from = name + shelf::FREE;
            }
            let Some(keep) = keep else { continue };
            let left = u64::from(budget.items_max).saturating_sub(forgotten);
            if left == 0 {
                break;
            }
            let done = self
                .sql
                .forget
                .query()
                .bind(self.time())
                .bind(from)
                .bind(millis(keep))
                .bind(i64::try_from(left).unwrap_or(i64::MAX))
                .execute(&mut *connection);
            let done = done.await.map_err(fault::told)?.rows_affected();
            forgotten += done;
            letters += if name == shelf::DEAD_LETTER { done } else { 0 };
        }
        Ok((forgotten, letters))
    }

    async fn free(&self, connection: &mut PgConnection, name: i16, items_max: u32) -> Result<(), Error> {
        let freed = self.sql.free.query().bind(self.time()).bind(name).bind(i64::from(items_max));
        let rows = freed.fetch_all(&mut *connection).await.map_err(fault::told)?;
        let topics = rows.iter().map(|row| Cells::new(row).next()).collect::<Result<Vec<_>, Error>>()?;
        self.hints.letters.grew(topics);
        Ok(())
    }

    /// What time it is, and when something is to be done next.
    async fn next_due(
        &self,
        connection: &mut PgConnection,
        budget: &Budget,
    ) -> Result<(Timestamp, Option<Timestamp>), Error> {
        let rows = self.sql.next_due.query().bind(self.time()).fetch_all(&mut *connection);
        let rows = rows.await.map_err(fault::told)?;
        let retentions = retentions(budget);
        let keep_of =
            |name: i16| retentions.iter().find(|(shelf, _)| *shelf == name).and_then(|(_, keep)| *keep);
        let (mut now, mut next) = (Timestamp::EPOCH, None);
        for row in &rows {
            let mut cells = Cells::new(row);
            cells.check_writable()?;
            now = cells.moment()?;
            let lease: Option<i64> = cells.next()?;
            let name: i16 = cells.next()?;
            let at: Option<i64> = cells.next()?;
            let due = at.map(moment).and_then(|at| match name {
                shelf::WAITING => Some(at),
                shelf::DEAD_LETTER => budget.dead_letters.as_ref().map(|_| at),
                shelf::DONE..=shelf::SEEN => keep_of(name).map(|_| at),
                _ => keep_of(name - shelf::FREE).map(|keep| at.after(keep)),
            });
            next = next.into_iter().chain(due).chain(lease.map(moment)).min();
        }
        Ok((now, next.filter(|at| *at != Timestamp::NEVER)))
    }
}

/// What is forgotten, and how long after it need not be kept. Dead letters go topic by topic, but none is kept for longer than the
/// longest retention of all.
fn retentions(budget: &Budget) -> [(i16, Option<Duration>); 4] {
    let done = (shelf::DONE, Some(Duration::ZERO));
    let longest = budget.dead_letters.as_ref().and_then(|letters| {
        let all = letters.topics.values().chain([&letters.default]);
        all.map(|retention| retention.keep).collect::<Option<Vec<_>>>()?.into_iter().max()
    });
    [done, (shelf::DEAD, budget.dead_keep), (shelf::DEAD_LETTER, longest), (shelf::SEEN, budget.seen_keep)]
}
