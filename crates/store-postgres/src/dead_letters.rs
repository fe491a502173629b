//! The retention of dead letters, by topic.
//!
//! A topic can only exceed its limit when maintenance finds dead letters that need not be kept for deduplication any
//! longer: the same run checks the topics of these. Everything else (a limit that was lowered, a process that stopped
//! in between, dead letters that became too old) is found by a round through all topics: each run continues where the
//! last one stopped, within the limits on topics and dead letters below.

use std::collections::{BTreeMap, HashSet};

use oncebox_core::{DeadLetters, Error, Retention, Timestamp, Topic};
use sqlx::PgConnection;

use crate::codes::{millis, timestamp};
use crate::db_error;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Maximum number of topics per run that are checked because their number of dead letters grew; the round through all
/// topics has the same maximum.
const TOPICS_MAX: usize = 512;
/// Maximum number of dead letters that one run counts, unless the limit of a single topic is higher.
const COUNTED_MAX: i64 = 100_000;

/// The result of one run for some topics.
#[derive(Default)]
pub(crate) struct Trimmed {
    pub(crate) deleted: u64,
    /// When one of these topics exceeds its retention next.
    pub(crate) next_due: Option<Timestamp>,
}

/// A topic to check; dead letters without content have the empty topic.
struct TopicCheck {
    name: String,
    /// When its oldest dead letter died, if that was read.
    oldest: Option<Timestamp>,
    retention: Retention,
}

/// The result of counting.
#[derive(Debug, PartialEq, Eq)]
struct CountResult {
    /// Indexes of topics with more dead letters than their limit.
    over_limit: HashSet<usize>,
    /// The number of topics that were counted.
    topics: usize,
}

impl PostgresStore {
    /// Deletes dead letters that exceed the retention of their topics, for some topics.
    pub(crate) async fn trim_dead_letters(
        &self,
        connection: &mut PgConnection,
        retention: &DeadLetters,
        now: Timestamp,
        items_max: u64,
    ) -> Result<Trimmed, Error> {
        let from = self.hints.dead_letters.next_topic();
        let grown = self.hints.dead_letters.grown(TOPICS_MAX);
        let mut topics: Vec<_> =
            grown.into_iter().map(|name| TopicCheck::new(retention, name, None)).collect();
        let grown = topics.len();
        topics.extend(self.dead_letter_topics(connection, retention, &from).await?);
        let counted = self.count_dead_letters(connection, &topics).await?;
        // A topic may be in the list twice.
        let mut over: BTreeMap<String, Retention> = BTreeMap::new();
        for (index, topic) in topics.iter().enumerate() {
            if let Some(found) = topic.over(now, counted.over_limit.contains(&index)) {
                let over = over.entry(topic.name.clone()).or_default();
                over.keep = over.keep.or(found.keep);
                over.messages_max = over.messages_max.or(found.messages_max);
            }
        }
        let deleted = self.trim(connection, over, items_max).await?;
        let mut next_due = first_due(&topics[grown..]);
        if deleted > 0 {
            next_due = first_due(&self.dead_letter_topics(connection, retention, &from).await?);
        }
        // A run that exhausted its budget continues with the same topics next time.
        if deleted < items_max {
            let (grown, round) = topics.split_at(grown);
            let checked = grown.iter().take(counted.topics).map(|topic| topic.name.as_str());
            if self.hints.dead_letters.mark_checked(checked) {
                next_due = next_due.into_iter().chain([now]).min();
            }
            let round_counted = counted.topics.checked_sub(grown.len());
            self.hints
                .dead_letters
                .set_next_topic(round_counted.map_or(from, |counted| after(round, counted)));
        }
        Ok(Trimmed { deleted, next_due })
    }

    /// Topics with removable dead letters, starting at this one.
    async fn dead_letter_topics(
        &self,
        connection: &mut PgConnection,
        retention: &DeadLetters,
        from: &str,
    ) -> Result<Vec<TopicCheck>, Error> {
        let limit = i64::try_from(TOPICS_MAX).unwrap_or(i64::MAX);
        let rows = self.sql.dead_letter_topics.query().bind(from.to_owned()).bind(limit);
        let rows = rows.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
        let topic = |row| {
            let mut cells = Cells::new(row);
            let (name, oldest) = (cells.next()?, timestamp(cells.next()?));
            Ok(TopicCheck::new(retention, name, Some(oldest)))
        };
        rows.iter().map(topic).collect()
    }

    /// Finds the topics that have more dead letters than their limit. Counts as many topics as the maximum allows.
    async fn count_dead_letters(
        &self,
        connection: &mut PgConnection,
        topics: &[TopicCheck],
    ) -> Result<CountResult, Error> {
        let limits: Vec<_> = topics.iter().map(|topic| topic.retention.messages_max.map(i64::from)).collect();
        let Some(first) = limits.iter().flatten().next() else {
            return Ok(CountResult { over_limit: HashSet::new(), topics: topics.len() });
        };
        // Enough for the first topic, so that every run advances the round.
        let total_max = COUNTED_MAX.max(first + 1);
        let names: Vec<_> = topics.iter().map(|topic| topic.name.clone()).collect();
        let rows = self.sql.dead_letter_counts.query().bind(names).bind(&limits).bind(total_max);
        let rows = rows.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
        let count = |row| {
            let mut cells = Cells::new(row);
            let (index, count): (i64, i64) = (cells.next()?, cells.next()?);
            Ok((usize::try_from(index - 1).unwrap_or_default(), count))
        };
        let counts = rows.iter().map(count).collect::<Result<Vec<_>, Error>>()?;
        Ok(CountResult::new(&limits, &counts, total_max))
    }

    /// Deletes the oldest dead letters of topics that exceed the given retention.
    async fn trim(
        &self,
        connection: &mut PgConnection,
        topics: BTreeMap<String, Retention>,
        items_max: u64,
    ) -> Result<u64, Error> {
        if topics.is_empty() || items_max == 0 {
            return Ok(0);
        }
        let keep_ms: Vec<_> = topics.values().map(|retention| retention.keep.map(millis)).collect();
        let messages_max: Vec<_> =
            topics.values().map(|retention| retention.messages_max.map(i64::from)).collect();
        let names: Vec<_> = topics.into_keys().collect();
        let query = self
            .sql
            .dead_letter_delete
            .query()
            .bind(self.time())
            .bind(names)
            .bind(keep_ms)
            .bind(messages_max);
        let done = query.bind(i64::try_from(items_max).unwrap_or(i64::MAX)).execute(&mut *connection);
        Ok(done.await.map_err(db_error::into_error)?.rows_affected())
    }
}

impl TopicCheck {
    fn new(retention: &DeadLetters, name: String, oldest: Option<Timestamp>) -> Self {
        let retention = retention.of(Topic::new(&*name).ok().as_ref());
        Self { name, oldest, retention }
    }

    /// When its oldest dead letter becomes too old.
    fn due(&self) -> Option<Timestamp> {
        Some(self.oldest?.after(self.retention.keep?))
    }

    /// The parts of its retention that the topic exceeds.
    fn over(&self, now: Timestamp, over_limit: bool) -> Option<Retention> {
        let keep = self.retention.keep.filter(|_| self.due().is_some_and(|due| due <= now));
        let messages_max = self.retention.messages_max.filter(|_| over_limit);
        (keep.is_some() || messages_max.is_some()).then_some(Retention { keep, messages_max })
    }
}

impl CountResult {
    /// Evaluates the numbers of dead letters by topic index, which add up to at most `total_max`.
    fn new(limits: &[Option<i64>], counts: &[(usize, i64)], total_max: i64) -> Self {
        let is_over = |(index, count): &&(usize, i64)| limits[*index].is_some_and(|max| *count > max);
        let over_limit: HashSet<usize> = counts.iter().filter(is_over).map(|(index, _)| *index).collect();
        let last = counts.iter().map(|(index, _)| *index).max();
        let cut_off = counts.iter().map(|(_, count)| count).sum::<i64>() >= total_max;
        // If counting stopped early, the last topic was counted completely only if it already exceeds its limit.
        let topics = match last.filter(|_| cut_off) {
            Some(last) => last + usize::from(over_limit.contains(&last)),
            None => limits.len(),
        };
        Self { over_limit, topics }
    }
}

fn first_due(topics: &[TopicCheck]) -> Option<Timestamp> {
    topics.iter().filter_map(TopicCheck::due).min()
}

/// Where the round continues after `counted` of its topics: a short list means that all topics were seen, and the
/// round starts again.
fn after(round: &[TopicCheck], counted: usize) -> String {
    match round.get(counted) {
        Some(next) => next.name.clone(),
        None if round.len() >= TOPICS_MAX => {
            round.last().map(|last| format!("{}\u{1}", last.name)).unwrap_or_default()
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::DeadLetters;

    use super::{CountResult, TOPICS_MAX, TopicCheck, after};

    fn counted(over_limit: &[usize], topics: usize) -> CountResult {
        CountResult { over_limit: over_limit.iter().copied().collect(), topics }
    }

    #[test]
    fn the_topic_at_which_counting_stopped_is_counted_next_time() {
        let limits = [Some(2), None, Some(5), Some(5)];
        assert_eq!(
            CountResult::new(&limits, &[(0, 3), (2, 5)], 9),
            counted(&[0], 4),
            "all topics were counted"
        );
        assert_eq!(CountResult::new(&limits, &[(0, 1), (2, 5), (3, 3)], 9), counted(&[], 3));
        assert_eq!(CountResult::new(&limits, &[(0, 3), (2, 6)], 9), counted(&[0, 2], 3));
        assert_eq!(CountResult::new(&[Some(8)], &[(0, 9)], 9), counted(&[0], 1), "a limit above the maximum");
    }

    #[test]
    fn the_round_continues_where_it_stopped_and_starts_again_at_the_end() {
        let round = |topics: usize| -> Vec<_> {
            let checked = |number| TopicCheck::new(&DeadLetters::default(), format!("{number:04}"), None);
            (0..topics).map(checked).collect()
        };
        assert_eq!(after(&round(3), 1), "0001");
        assert_eq!(after(&round(3), 3), "");
        assert_eq!(after(&round(TOPICS_MAX), TOPICS_MAX), "0511\u{1}");
        assert_eq!(after(&[], 0), "");
    }
}
