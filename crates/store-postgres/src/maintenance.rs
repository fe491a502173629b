//! Maintenance: runs due timers and deletes what need not be kept, in bounded batches.

use std::time::Duration;

use oncebox_core::{Budget, Error, MaintenanceReport, Timestamp};
use sqlx::PgConnection;

use crate::codes::{millis, timestamp};
use crate::db_error;
use crate::rows::{Cells, maintenance_class};
use crate::store::PostgresStore;

/// What is due.
struct DueWork {
    now: Timestamp,
    /// When the next run is due.
    next_due: Option<Timestamp>,
    /// Whether records have expired.
    records: bool,
}

/// The result of one maintenance run.
struct Done {
    deleted: u64,
    /// Dead letters among them.
    dead_letters: u64,
    /// When the next run is due.
    next_due: Option<Timestamp>,
}

impl PostgresStore {
    pub(crate) async fn run_maintenance(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        let mut connection = self.connection().await?;
        let done = self.maintain_on(&mut connection, &budget).await;
        let done = Self::release(connection, done)?;
        let mut report = self.hints.report.take();
        (report.forgotten, report.dead_letters_forgotten) = (done.deleted, done.dead_letters);
        report.next_due = done.next_due;
        Ok(report)
    }

    /// Runs timers and deletes, within the budget.
    async fn maintain_on(&self, connection: &mut PgConnection, budget: &Budget) -> Result<Done, Error> {
        // Mostly there is nothing to do, and finding that out is one statement.
        let DueWork { now, mut next_due, records } = self.next_due(connection, budget).await?;
        let (mut deleted, mut dead_letters) = (0, 0);
        if next_due.is_some_and(|due| due <= now) {
            if self.run_all_timers(connection, budget.items_max).await? {
                (deleted, dead_letters) = self.delete_removable(connection, budget).await?;
            }
            next_due = self.next_due(connection, budget).await?.next_due;
        }
        if let Some(retention) = &budget.dead_letters {
            let left = u64::from(budget.items_max).saturating_sub(deleted);
            let trimmed = self.trim_dead_letters(connection, retention, now, left).await?;
            (deleted, dead_letters) = (deleted + trimmed.deleted, dead_letters + trimmed.deleted);
            // Dead letters beyond their maximum number have no due time: after a run that exhausted its budget,
            // another run is due.
            let more = (deleted > 0 && trimmed.deleted == left).then_some(now);
            next_due = next_due.into_iter().chain(trimmed.next_due).chain(more).min();
        }
        if records {
            let left = u64::from(budget.items_max).saturating_sub(deleted);
            self.delete_expired_records(connection, left).await?;
        }
        Ok(Done { deleted, dead_letters, next_due })
    }

    /// Deletes by age; returns the number of deleted messages, and of dead letters among them.
    async fn delete_removable(
        &self,
        connection: &mut PgConnection,
        budget: &Budget,
    ) -> Result<(u64, u64), Error> {
        let (mut deleted, mut dead_letters) = (0, 0);
        for (class, keep) in retentions(budget) {
            let mut from = class;
            if class != maintenance_class::DONE {
                self.mark_removable(connection, class, budget.items_max).await?;
                from = class + maintenance_class::REMOVABLE_OFFSET;
            }
            let Some(keep) = keep else { continue };
            let left = u64::from(budget.items_max).saturating_sub(deleted);
            if left == 0 {
                break;
            }
            let done = self
                .sql
                .delete_removable
                .query()
                .bind(self.time())
                .bind(from)
                .bind(millis(keep))
                .bind(i64::try_from(left).unwrap_or(i64::MAX))
                .execute(&mut *connection);
            let done = done.await.map_err(db_error::into_error)?.rows_affected();
            deleted += done;
            dead_letters += if class == maintenance_class::DEAD_LETTER { done } else { 0 };
        }
        Ok((deleted, dead_letters))
    }

    async fn mark_removable(
        &self,
        connection: &mut PgConnection,
        class: i16,
        items_max: u32,
    ) -> Result<(), Error> {
        let marked = self.sql.mark_removable.query().bind(self.time()).bind(class).bind(i64::from(items_max));
        let rows = marked.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
        let topics = rows.iter().map(|row| Cells::new(row).next()).collect::<Result<Vec<_>, Error>>()?;
        self.hints.dead_letters.mark_grown(topics);
        Ok(())
    }

    /// Finds out what is due.
    async fn next_due(&self, connection: &mut PgConnection, budget: &Budget) -> Result<DueWork, Error> {
        let rows = self.sql.next_due.query().bind(self.time()).fetch_all(&mut *connection);
        let rows = rows.await.map_err(db_error::into_error)?;
        let retentions = retentions(budget);
        let keep_of =
            |wanted: i16| retentions.iter().find(|(class, _)| *class == wanted).and_then(|(_, keep)| *keep);
        let mut due = DueWork { now: Timestamp::EPOCH, next_due: None, records: false };
        for row in &rows {
            let mut cells = Cells::new(row);
            cells.check_writable()?;
            (due.now, due.records) = (cells.timestamp()?, cells.next()?);
            let lease: Option<i64> = cells.next()?;
            let class: i16 = cells.next()?;
            let at: Option<i64> = cells.next()?;
            let due_at = at.map(timestamp).and_then(|at| match class {
                maintenance_class::TIMER => Some(at),
                maintenance_class::DEAD_LETTER => budget.dead_letters.as_ref().map(|_| at),
                maintenance_class::DONE..=maintenance_class::SEEN => keep_of(class).map(|_| at),
                _ => keep_of(class - maintenance_class::REMOVABLE_OFFSET).map(|keep| at.after(keep)),
            });
            due.next_due = due.next_due.into_iter().chain(due_at).chain(lease.map(timestamp)).min();
        }
        due.next_due = due.next_due.filter(|at| *at != Timestamp::NEVER);
        Ok(due)
    }
}

/// The classes that are deleted, and how long after their protection ends. Dead letters are deleted by topic, but
/// none is kept for longer than the longest retention of all.
fn retentions(budget: &Budget) -> [(i16, Option<Duration>); 4] {
    let done = (maintenance_class::DONE, Some(Duration::ZERO));
    let longest = budget.dead_letters.as_ref().and_then(|retention| {
        let all = retention.topics.values().chain([&retention.default]);
        all.map(|topic| topic.keep).collect::<Option<Vec<_>>>()?.into_iter().max()
    });
    [
        done,
        (maintenance_class::DEAD, budget.dead_keep),
        (maintenance_class::DEAD_LETTER, longest),
        (maintenance_class::SEEN, budget.seen_keep),
    ]
}
