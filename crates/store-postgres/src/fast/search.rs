//! Finding lanes in the tables.

use oncebox_core::{Error, Namespace, Topic, Topics};
use sqlx::PgConnection;

use super::look::Requests;
use crate::codes::namespace;
use crate::fault;
use crate::hints::{Lane, SCAN_LANES};
use crate::query::Query;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Lanes that one search finds, at most: a claim that has looked into them searches again.
const SEARCH_LANES: usize = 64;
/// Shards are below this.
const SHARD_END: i32 = 1 << 16;

/// Which lanes count as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Having {
    /// Those that have something to be handled, leased or not: one probe of an index each.
    Ready,
    /// Those that have something claimable: what is leased at their heads has to be passed by.
    Claimable,
}

/// What a search found.
pub(crate) struct Search {
    /// Time has brought something that is not written down.
    pub(crate) pending: bool,
    /// One of the claims came before.
    pub(crate) repeated: bool,
    pub(crate) lanes: Vec<Lane>,
}

impl PostgresStore {
    /// Lanes that have something claimable, among all of the topics.
    pub(crate) async fn search(
        &self,
        connection: &mut PgConnection,
        requests: &Requests<'_>,
        space: Namespace,
        topics: &Topics,
    ) -> Result<Search, Error> {
        self.find_lanes(connection, requests, space, topics, None, Having::Claimable).await
    }

    /// Lanes below one that may have something; the highest first.
    pub(crate) async fn scan(
        &self,
        connection: &mut PgConnection,
        space: Namespace,
        topics: &Topics,
        below: Option<&Lane>,
    ) -> Result<Vec<Lane>, Error> {
        let none = Requests::default();
        Ok(self.find_lanes(connection, &none, space, topics, below, Having::Ready).await?.lanes)
    }

    async fn find_lanes(
        &self,
        connection: &mut PgConnection,
        requests: &Requests<'_>,
        space: Namespace,
        topics: &Topics,
        below: Option<&Lane>,
        having: Having,
    ) -> Result<Search, Error> {
        let size = if having == Having::Ready { SCAN_LANES } else { SEARCH_LANES };
        let query = self.lanes_below(space, topics, below);
        let query = query.bind(i64::try_from(size).unwrap_or(i64::MAX));
        let query = query.bind(requests.owners()).bind(requests.ids()).bind(having == Having::Ready);
        let rows = query.fetch_all(&mut *connection).await.map_err(fault::told)?;
        let mut found = Search { pending: false, repeated: false, lanes: Vec::with_capacity(rows.len()) };
        for row in rows {
            let mut cells = Cells::new(&row);
            (found.pending, found.repeated) = (cells.next()?, cells.next()?);
            // It would find nothing for ever: what comes in goes to the primary.
            cells.check_writable()?;
            let (topic, shard): (Option<String>, Option<i32>) = (cells.next()?, cells.next()?);
            if let (Some(topic), Some(shard)) = (topic, shard) {
                found.lanes.push((Topic::new(topic)?, shard));
            }
        }
        Ok(found)
    }

    fn lanes_below<'q>(&self, space: Namespace, topics: &Topics, below: Option<&Lane>) -> Query<'q> {
        let shard = below.map_or(SHARD_END, |(_, shard)| *shard);
        let Some(names) = topics.named() else {
            let topic = below.map_or_else(highest_topic, |(topic, _)| topic.as_str().to_owned());
            let query = self.sql.lanes.query().bind(self.time()).bind(namespace(space));
            return query.bind(topic).bind(shard);
        };
        // Downwards, and the one in which the last scan ended first.
        let names = names.iter().rev().filter(|name| below.is_none_or(|(topic, _)| *name <= topic));
        let names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
        self.sql.lanes_of.query().bind(self.time()).bind(namespace(space)).bind(names).bind(shard)
    }
}

/// Above every topic: longer than any may be, of the highest character.
fn highest_topic() -> String {
    "\u{10FFFF}".repeat(oncebox_core::limits::TEXT_BYTES_MAX / 4 + 1)
}
