//! Finds lanes in the tables.

use oncebox_core::{Error, Namespace, Topic, Topics};
use sqlx::PgConnection;

use super::work_statement::Requests;
use crate::codes::namespace;
use crate::db_error;
use crate::hints::{Lane, SCAN_LANES};
use crate::query::Query;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Maximum number of lanes that one search returns: a claim that has scanned them searches again.
const SEARCH_LANES: usize = 64;
/// Shards are below this.
const SHARD_END: i32 = 1 << 16;

/// Which lanes to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneFilter {
    /// Lanes with ready messages, leased or not: one index probe per lane.
    Ready,
    /// Lanes with claimable messages: the search has to skip the leased messages at their heads.
    Claimable,
}

/// The result of a search.
pub(crate) struct Search {
    /// Timers are due.
    pub(crate) timers_due: bool,
    /// One of the claims is a repeat and already has leases.
    pub(crate) repeated: bool,
    pub(crate) lanes: Vec<Lane>,
}

impl PostgresStore {
    /// Finds lanes of the topics that have claimable messages.
    pub(super) async fn search(
        &self,
        connection: &mut PgConnection,
        requests: &Requests<'_>,
        in_namespace: Namespace,
        topics: &Topics,
    ) -> Result<Search, Error> {
        self.find_lanes(connection, requests, in_namespace, topics, None, LaneFilter::Claimable).await
    }

    /// Finds lanes below another one that may have messages; in descending order.
    pub(super) async fn scan(
        &self,
        connection: &mut PgConnection,
        in_namespace: Namespace,
        topics: &Topics,
        below: Option<&Lane>,
    ) -> Result<Vec<Lane>, Error> {
        let none = Requests::default();
        Ok(self.find_lanes(connection, &none, in_namespace, topics, below, LaneFilter::Ready).await?.lanes)
    }

    async fn find_lanes(
        &self,
        connection: &mut PgConnection,
        requests: &Requests<'_>,
        in_namespace: Namespace,
        topics: &Topics,
        below: Option<&Lane>,
        filter: LaneFilter,
    ) -> Result<Search, Error> {
        let size = if filter == LaneFilter::Ready { SCAN_LANES } else { SEARCH_LANES };
        let query = self.lanes_below(in_namespace, topics, below);
        let query = query.bind(i64::try_from(size).unwrap_or(i64::MAX));
        let query = query.bind(requests.owners()).bind(requests.ids()).bind(filter == LaneFilter::Ready);
        let rows = query.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
        let mut found = Search { timers_due: false, repeated: false, lanes: Vec::with_capacity(rows.len()) };
        for row in rows {
            let mut cells = Cells::new(&row);
            (found.timers_due, found.repeated) = (cells.next()?, cells.next()?);
            // A read-only server would never return anything new: new messages go to the primary.
            cells.check_writable()?;
            let (topic, shard): (Option<String>, Option<i32>) = (cells.next()?, cells.next()?);
            if let (Some(topic), Some(shard)) = (topic, shard) {
                found.lanes.push((Topic::new(topic)?, shard));
            }
        }
        Ok(found)
    }

    fn lanes_below<'q>(&self, in_namespace: Namespace, topics: &Topics, below: Option<&Lane>) -> Query<'q> {
        let shard = below.map_or(SHARD_END, |(_, shard)| *shard);
        let Some(names) = topics.named() else {
            let topic = below.map_or_else(highest_topic, |(topic, _)| topic.as_str().to_owned());
            let query = self.sql.lanes.query().bind(self.time()).bind(namespace(in_namespace));
            return query.bind(topic).bind(shard);
        };
        // In descending order, starting with the topic in which the last scan ended.
        let names = names.iter().rev().filter(|name| below.is_none_or(|(topic, _)| *name <= topic));
        let names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
        self.sql
            .lanes_of_topics
            .query()
            .bind(self.time())
            .bind(namespace(in_namespace))
            .bind(names)
            .bind(shard)
    }
}

/// Sorts after every topic: longer than any topic may be, and made of the highest character.
fn highest_topic() -> String {
    "\u{10FFFF}".repeat(oncebox_core::limits::TEXT_BYTES_MAX / 4 + 1)
}
