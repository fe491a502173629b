//! The retention of dead letters, topic by topic. Each upkeep looks at a few topics, where the last one stopped: what lies too
//! long or too many in a topic is found within as many upkeeps as there are groups of topics with dead letters.

use oncebox_core::{DeadLetters, Error, Retention, Timestamp, Topic};
use sqlx::PgConnection;

use crate::codes::{millis, moment};
use crate::fault;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Topics that one upkeep looks at.
const TOPICS_MAX: i64 = 16;

/// What one look at some topics did.
#[derive(Default)]
pub(crate) struct Trimmed {
    pub(crate) forgotten: u64,
    /// When one of these topics is over its retention next.
    pub(crate) next_due: Option<Timestamp>,
}

impl PostgresStore {
    /// Forgets what some topics have over their retention.
    pub(crate) async fn forget_letters(
        &self,
        connection: &mut PgConnection,
        retention: &DeadLetters,
        items_max: u64,
    ) -> Result<Trimmed, Error> {
        let from = self.hints.letters.get();
        let mut topics = self.letter_topics(connection, &from).await?;
        // A short list is the end of all: the next upkeep begins anew.
        let full = i64::try_from(topics.len()).is_ok_and(|count| count >= TOPICS_MAX);
        let last = topics.last().filter(|_| full).map(|(name, _)| format!("{name}\u{1}"));
        if !topics.is_empty() {
            let forgotten = self.trim(connection, retention, &topics, items_max).await?;
            if forgotten > 0 {
                topics = self.letter_topics(connection, &from).await?;
            }
            // Whoever ran out of its budget goes on with the same topics.
            let next = if forgotten < items_max { last.unwrap_or_default() } else { from };
            self.hints.letters.set(next);
            let dues = topics.iter().filter_map(|(name, died)| Some(died.after(of(retention, name).keep?)));
            return Ok(Trimmed { forgotten, next_due: dues.min() });
        }
        self.hints.letters.set(String::new());
        Ok(Trimmed::default())
    }

    /// Topics with letters that need not be kept, from this one on, and when the oldest of each died.
    async fn letter_topics(
        &self,
        connection: &mut PgConnection,
        from: &str,
    ) -> Result<Vec<(String, Timestamp)>, Error> {
        let rows = self.sql.letter_topics.query().bind(from.to_owned()).bind(TOPICS_MAX);
        let rows = rows.fetch_all(&mut *connection).await.map_err(fault::told)?;
        let topic = |row| {
            let mut cells = Cells::new(row);
            Ok((cells.next()?, moment(cells.next()?)))
        };
        rows.iter().map(topic).collect()
    }

    async fn trim(
        &self,
        connection: &mut PgConnection,
        retention: &DeadLetters,
        topics: &[(String, Timestamp)],
        items_max: u64,
    ) -> Result<u64, Error> {
        let retentions: Vec<_> = topics.iter().map(|(name, _)| of(retention, name)).collect();
        let names: Vec<_> = topics.iter().map(|(name, _)| name.clone()).collect();
        let keeps: Vec<_> = retentions.iter().map(|own| own.keep.map(millis)).collect();
        let most: Vec<_> = retentions.iter().map(|own| own.messages_max.map(i64::from)).collect();
        let query = self.sql.forget_letters.query().bind(self.time()).bind(names).bind(keeps).bind(most);
        let done = query.bind(i64::try_from(items_max).unwrap_or(i64::MAX)).execute(&mut *connection);
        Ok(done.await.map_err(fault::told)?.rows_affected())
    }
}

/// The retention of a topic, as it is named in the tables; the empty one is that of letters without content.
fn of(retention: &DeadLetters, name: &str) -> Retention {
    retention.of(Topic::new(name).ok().as_ref())
}
