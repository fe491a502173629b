//! Topics: which have claimable messages, and how many messages each has.

use oncebox_core::limits::TOPIC_WORKERS_MAX;
use oncebox_core::{Error, ReadyTopics, Topic, TopicCounts, TopicPage, TopicQuery, TopicRange, WorkerName};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use crate::codes::{namespace, timestamp};
use crate::db_error;
use crate::read::COUNT_MAX;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Maximum number of topics per page: each is counted, up to [`COUNT_MAX`] messages per cell.
const PAGE_MAX: u32 = 100;

impl PostgresStore {
    pub(crate) async fn topics_with_work(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        let mut connection = self.connection().await?;
        let topics = self.topics_on(&mut connection, query).await;
        Self::release(connection, topics)
    }

    async fn topics_on(
        &self,
        connection: &mut PgConnection,
        query: &ReadyTopics,
    ) -> Result<Vec<Topic>, Error> {
        self.catch_up(connection).await?;
        let rows = self
            .sql
            .ready_topics
            .query()
            .bind(self.time())
            .bind(namespace(query.namespace))
            .bind(query.after.as_ref().map_or("", |topic| topic.as_str()).to_owned())
            .bind(i64::from(query.limit.get()))
            .fetch_all(connection);
        let mut topics = Vec::new();
        for row in rows.await.map_err(db_error::into_error)? {
            let mut cells = Cells::new(&row);
            cells.check_writable()?;
            topics.extend(cells.next::<Option<String>>()?.map(Topic::new).transpose()?);
        }
        Ok(topics)
    }

    pub(crate) async fn count_topics(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        let mut connection = self.connection().await?;
        let page = self.count_topics_on(&mut connection, query).await;
        Self::release(connection, page)
    }

    async fn count_topics_on(
        &self,
        connection: &mut PgConnection,
        query: &TopicQuery,
    ) -> Result<TopicPage, Error> {
        self.catch_up(connection).await?;
        let limit = query.limit.get().min(PAGE_MAX);
        let from = match &query.range {
            TopicRange::From(topic) | TopicRange::Only(topic) => topic.as_str(),
            _ => "",
        };
        let mut transaction = self.begin_read(connection).await?;
        let rows = self
            .sql
            .topic_counts
            .query()
            .bind(self.time())
            .bind(namespace(query.namespace))
            .bind(from.to_owned())
            // One more, to find out where the next page begins.
            .bind(i64::from(limit) + 1)
            .bind(COUNT_MAX + 1)
            .bind(i32::try_from(TOPIC_WORKERS_MAX).unwrap_or(i32::MAX))
            .bind(matches!(query.range, TopicRange::Only(_)))
            .fetch_all(&mut transaction);
        let mut page = TopicPage::default();
        for row in rows.await.map_err(db_error::into_error)? {
            let Some(counts) = counted(&row)? else { continue };
            if page.topics.len() == limit as usize {
                page.next = Some(counts.topic);
                break;
            }
            page.topics.push(counts);
        }
        Ok(page)
    }
}

/// Reads a row of `topic_counts.sql`; `None` if it has no topic, or a topic without messages.
fn counted(row: &PgRow) -> Result<Option<TopicCounts>, Error> {
    let mut cells = Cells::new(row);
    cells.check_writable()?;
    let Some(name) = cells.next::<Option<String>>()? else { return Ok(None) };
    let mut counts = TopicCounts::none(Topic::new(name)?);
    let mut next = || {
        let counted: i64 = cells.next()?;
        counts.estimated |= counted > COUNT_MAX;
        Ok::<_, Error>(u64::try_from(counted).unwrap_or_default())
    };
    let (ready, in_lanes, later) = (next()?, next()?, next()?);
    let (leased, dead) = (next()?, next()?);
    if in_lanes + later + dead == 0 {
        return Ok(None);
    }
    let oldest: Option<i64> = cells.next()?;
    let workers: Vec<String> = cells.next()?;
    counts.estimated |= cells.next::<i64>()? > COUNT_MAX;
    (counts.ready, counts.leased, counts.dead) = (ready, leased, dead);
    counts.waiting = (in_lanes + later).saturating_sub(ready + leased);
    counts.oldest_ready = oldest.map(timestamp);
    counts.workers = workers.into_iter().map(WorkerName::new).collect::<Result<_, _>>()?;
    Ok(Some(counts))
}
