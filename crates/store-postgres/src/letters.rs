//! The retention of dead letters, topic by topic.
//!
//! A topic has too many letters once upkeep finds that some need not be kept for their receipts any longer: the same upkeep checks the topics of these.
//! Everything else (a bound that was lowered, a process that ended in between, what has become too old) is found by a round through all topics: each
//! upkeep goes on where the last one stopped, for as many topics and letters as are named here.

use std::collections::{BTreeMap, HashSet};

use oncebox_core::{DeadLetters, Error, Retention, Timestamp, Topic};
use sqlx::PgConnection;

use crate::codes::{millis, moment};
use crate::fault;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Topics that one upkeep checks because they have more letters than before, and as many of the round.
const TOPICS_MAX: usize = 512;
/// Letters that one upkeep counts, unless the bound of a single topic is higher.
const LETTERS_MAX: i64 = 100_000;

/// What one upkeep did with some topics.
#[derive(Default)]
pub(crate) struct Trimmed {
    pub(crate) forgotten: u64,
    /// When one of these topics is over its retention next.
    pub(crate) next_due: Option<Timestamp>,
}

/// A topic that is checked; the empty one is that of letters without content.
struct Checked {
    name: String,
    /// When its oldest letter died, where that was read.
    oldest: Option<Timestamp>,
    retention: Retention,
}

/// What counting showed.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    /// Topics with more letters than they may have, by their places.
    overfull: HashSet<usize>,
    /// So many topics were counted.
    topics: usize,
}

impl PostgresStore {
    /// Forgets what some topics have over their retention.
    pub(crate) async fn forget_letters(
        &self,
        connection: &mut PgConnection,
        retention: &DeadLetters,
        now: Timestamp,
        items_max: u64,
    ) -> Result<Trimmed, Error> {
        let from = self.hints.letters.from();
        let grown = self.hints.letters.grown(TOPICS_MAX);
        let mut topics: Vec<_> = grown.into_iter().map(|name| Checked::new(retention, name, None)).collect();
        let grown = topics.len();
        topics.extend(self.letter_topics(connection, retention, &from).await?);
        let counted = self.count_letters(connection, &topics).await?;
        // A topic may be in the list twice.
        let mut over: BTreeMap<String, Retention> = BTreeMap::new();
        for (place, topic) in topics.iter().enumerate() {
            if let Some(found) = topic.over(now, counted.overfull.contains(&place)) {
                let over = over.entry(topic.name.clone()).or_default();
                over.keep = over.keep.or(found.keep);
                over.messages_max = over.messages_max.or(found.messages_max);
            }
        }
        let forgotten = self.trim(connection, over, items_max).await?;
        let mut next_due = first_due(&topics[grown..]);
        if forgotten > 0 {
            next_due = first_due(&self.letter_topics(connection, retention, &from).await?);
        }
        // An upkeep that ran out of its budget goes on with the same topics.
        if forgotten < items_max {
            let (grown, round) = topics.split_at(grown);
            let checked = grown.iter().take(counted.topics).map(|topic| topic.name.as_str());
            if self.hints.letters.checked(checked) {
                next_due = next_due.into_iter().chain([now]).min();
            }
            let round_counted = counted.topics.checked_sub(grown.len());
            self.hints.letters.go_on_from(round_counted.map_or(from, |counted| after(round, counted)));
        }
        Ok(Trimmed { forgotten, next_due })
    }

    /// Topics with letters that need not be kept, from this one on.
    async fn letter_topics(
        &self,
        connection: &mut PgConnection,
        retention: &DeadLetters,
        from: &str,
    ) -> Result<Vec<Checked>, Error> {
        let most = i64::try_from(TOPICS_MAX).unwrap_or(i64::MAX);
        let rows = self.sql.letter_topics.query().bind(from.to_owned()).bind(most);
        let rows = rows.fetch_all(&mut *connection).await.map_err(fault::told)?;
        let topic = |row| {
            let mut cells = Cells::new(row);
            let (name, oldest) = (cells.next()?, moment(cells.next()?));
            Ok(Checked::new(retention, name, Some(oldest)))
        };
        rows.iter().map(topic).collect()
    }

    /// Which of the topics have more letters than they may have. Counts as many of them as it may.
    async fn count_letters(
        &self,
        connection: &mut PgConnection,
        topics: &[Checked],
    ) -> Result<Counted, Error> {
        let bounds: Vec<_> = topics.iter().map(|topic| topic.retention.messages_max.map(i64::from)).collect();
        let Some(first) = bounds.iter().flatten().next() else {
            return Ok(Counted { overfull: HashSet::new(), topics: topics.len() });
        };
        // Enough for the first one, so that every upkeep brings the round on.
        let most = LETTERS_MAX.max(first + 1);
        let names: Vec<_> = topics.iter().map(|topic| topic.name.clone()).collect();
        let rows = self.sql.letter_counts.query().bind(names).bind(&bounds).bind(most);
        let rows = rows.fetch_all(&mut *connection).await.map_err(fault::told)?;
        let count = |row| {
            let mut cells = Cells::new(row);
            let (place, count): (i64, i64) = (cells.next()?, cells.next()?);
            Ok((usize::try_from(place - 1).unwrap_or_default(), count))
        };
        let counts = rows.iter().map(count).collect::<Result<Vec<_>, Error>>()?;
        Ok(Counted::new(&bounds, &counts, most))
    }

    /// Forgets the oldest letters of topics, as far as these are over what is given for each.
    async fn trim(
        &self,
        connection: &mut PgConnection,
        topics: BTreeMap<String, Retention>,
        items_max: u64,
    ) -> Result<u64, Error> {
        if topics.is_empty() || items_max == 0 {
            return Ok(0);
        }
        let keeps: Vec<_> = topics.values().map(|own| own.keep.map(millis)).collect();
        let most: Vec<_> = topics.values().map(|own| own.messages_max.map(i64::from)).collect();
        let names: Vec<_> = topics.into_keys().collect();
        let query = self.sql.forget_letters.query().bind(self.time()).bind(names).bind(keeps).bind(most);
        let done = query.bind(i64::try_from(items_max).unwrap_or(i64::MAX)).execute(&mut *connection);
        Ok(done.await.map_err(fault::told)?.rows_affected())
    }
}

impl Checked {
    fn new(retention: &DeadLetters, name: String, oldest: Option<Timestamp>) -> Self {
        let retention = retention.of(Topic::new(&*name).ok().as_ref());
        Self { name, oldest, retention }
    }

    /// When its oldest letter is too old.
    fn due(&self) -> Option<Timestamp> {
        Some(self.oldest?.after(self.retention.keep?))
    }

    /// What of its retention it is over.
    fn over(&self, now: Timestamp, overfull: bool) -> Option<Retention> {
        let keep = self.retention.keep.filter(|_| self.due().is_some_and(|due| due <= now));
        let messages_max = self.retention.messages_max.filter(|_| overfull);
        (keep.is_some() || messages_max.is_some()).then_some(Retention { keep, messages_max })
    }
}

impl Counted {
    /// What the numbers of letters by place say; in all they are at most `most`.
    fn new(bounds: &[Option<i64>], counts: &[(usize, i64)], most: i64) -> Self {
        let is_over = |(place, count): &&(usize, i64)| bounds[*place].is_some_and(|bound| *count > bound);
        let overfull: HashSet<usize> = counts.iter().filter(is_over).map(|(place, _)| *place).collect();
        let last = counts.iter().map(|(place, _)| *place).max();
        let cut_off = counts.iter().map(|(_, count)| count).sum::<i64>() >= most;
        // Where counting stopped, only what is over its bound already was counted far enough.
        let topics = match last.filter(|_| cut_off) {
            Some(last) => last + usize::from(overfull.contains(&last)),
            None => bounds.len(),
        };
        Self { overfull, topics }
    }
}

fn first_due(topics: &[Checked]) -> Option<Timestamp> {
    topics.iter().filter_map(Checked::due).min()
}

/// Where the round goes on when so many of its topics were counted: a list that is short is the end of all, and the round begins anew.
fn after(round: &[Checked], counted: usize) -> String {
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

    use super::{Checked, Counted, TOPICS_MAX, after};

    fn counted(overfull: &[usize], topics: usize) -> Counted {
        Counted { overfull: overfull.iter().copied().collect(), topics }
    }

    #[test]
    fn a_topic_at_which_counting_stopped_is_counted_next_time() {
        let bounds = [Some(2), None, Some(5), Some(5)];
        assert_eq!(Counted::new(&bounds, &[(0, 3), (2, 5)], 9), counted(&[0], 4), "all were counted");
        assert_eq!(Counted::new(&bounds, &[(0, 1), (2, 5), (3, 3)], 9), counted(&[], 3));
        assert_eq!(Counted::new(&bounds, &[(0, 3), (2, 6)], 9), counted(&[0, 2], 3));
        assert_eq!(Counted::new(&[Some(8)], &[(0, 9)], 9), counted(&[0], 1), "a bound above all others");
    }

    #[test]
    fn the_round_goes_on_where_it_stopped_and_begins_anew_after_its_end() {
        let round = |topics: usize| -> Vec<_> {
            let checked = |number| Checked::new(&DeadLetters::default(), format!("{number:04}"), None);
            (0..topics).map(checked).collect()
        };
        assert_eq!(after(&round(3), 1), "0001");
        assert_eq!(after(&round(3), 3), "");
        assert_eq!(after(&round(TOPICS_MAX), TOPICS_MAX), "0511\u{1}");
        assert_eq!(after(&[], 0), "");
    }
}
