//! Whether there is capacity: in lanes for messages, and for keys.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use oncebox_core::{Bound, Error, NewMessage, Usage};
use oncebox_system::uptime;
use sqlx::PgConnection;

use crate::codes::namespace;
use crate::db_error;
use crate::hints::Demand;
use crate::rows::Cells;
use crate::sql::Sql;
use crate::store::PostgresStore;
use oncebox_store_rows::{LaneKey, lane_key};

/// Keys are counted up to this number and estimated beyond it.
const KEYS_COUNTED_MAX: i64 = 10_000;
/// How long a process trusts its last check of the number of keys.
const KEYS_FRESH_FOR: Duration = Duration::from_secs(1);

impl PostgresStore {
    /// Returns for each item of a call whether its lane is full, assuming that all items before it are new.
    pub(crate) async fn full_lanes(
        &self,
        connection: &mut PgConnection,
        messages: &[NewMessage],
    ) -> Result<Vec<bool>, Error> {
        let mut demands: HashMap<LaneKey, Demand> = HashMap::new();
        for message in messages.iter().filter(|message| message.lane_max.is_some()) {
            let demand = demands.entry(lane_key(message)).or_default();
            demand.max = demand.max.max(message.lane_max.map_or(0, |max| u64::from(max.get())));
        }
        if demands.is_empty() {
            return Ok(vec![false; messages.len()]);
        }
        // Messages without a limit also fill the lane.
        for message in messages {
            if let Some(demand) = demands.get_mut(&lane_key(message)) {
                demand.items += 1;
            }
        }
        let (now, mut filled) = (uptime(), HashMap::with_capacity(demands.len()));
        let mut undecided = Vec::new();
        for (lane, demand) in demands {
            match self.hints.depths.get(&lane, demand, now) {
                Some(count) => drop(filled.insert(lane, count)),
                None => undecided.push((lane, demand)),
            }
        }
        if !undecided.is_empty() {
            let counted = || undecided.iter().map(|(lane, demand)| (lane, demand.max));
            let mut counts = count_unfinished(&self.sql, connection, counted()).await?;
            if counts.iter().zip(&undecided).any(|(count, (_, demand))| count + demand.items > demand.max) {
                // Expired messages do not count towards the limit.
                self.catch_up(connection).await?;
                counts = count_unfinished(&self.sql, connection, counted()).await?;
            }
            for ((lane, _), count) in undecided.into_iter().zip(counts) {
                self.hints.depths.set(lane.clone(), count, now);
                filled.insert(lane, count);
            }
        }
        let full = messages.iter().map(|message| {
            let Some(count) = filled.get_mut(&lane_key(message)) else { return false };
            let is_full = message.lane_max.is_some_and(|max| *count >= u64::from(max.get()));
            *count += u64::from(!is_full);
            is_full
        });
        Ok(full.collect())
    }

    /// Checks once a second whether the store has reached its maximum number of keys.
    pub(crate) async fn refresh_keys(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let now = uptime();
        let asked = *self.hints.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_some_and(|(_, at)| now.saturating_sub(at) < KEYS_FRESH_FOR) {
            return Ok(());
        }
        let full = self.count_keys(connection).await? >= self.keys_max;
        *self.hints.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some((full, now));
        Ok(())
    }

    async fn count_keys(&self, connection: &mut PgConnection) -> Result<u64, Error> {
        let row = self.sql.key_estimate.query().bind(&*self.message_table).fetch_one(connection).await;
        let keys: i64 = Cells::new(&row.map_err(db_error::into_error)?).next()?;
        Ok(u64::try_from(keys).unwrap_or_default())
    }

    /// Counts keys exactly as long as there are few. Fails on a read-only server, which cannot accept messages.
    async fn count_keys_exactly(&self, connection: &mut PgConnection) -> Result<u64, Error> {
        let query = self.sql.key_count.query().bind(&*self.message_table).bind(KEYS_COUNTED_MAX + 1);
        let row = query.fetch_one(connection).await.map_err(db_error::into_error)?;
        let mut cells = Cells::new(&row);
        cells.check_writable()?;
        let (counted, estimated): (i64, i64) = (cells.next()?, cells.next()?);
        let keys = if counted > KEYS_COUNTED_MAX { estimated.max(counted) } else { counted };
        Ok(u64::try_from(keys).unwrap_or_default())
    }

    /// Replaces the machine's key limit with the store's: the machine only knows that it is reached.
    pub(crate) fn with_store_limit(&self, bound: Bound) -> Bound {
        if bound.name == Bound::KEYS { Bound::new(Bound::KEYS, self.keys_max, self.keys_max) } else { bound }
    }

    /// The usage of the store's limits. A large number of keys is estimated from the server's statistics, which may
    /// be some seconds old.
    pub(crate) async fn usage_now(&self) -> Result<Usage, Error> {
        let mut connection = self.connection().await?;
        let keys = self.count_keys_exactly(&mut connection).await;
        let keys = Self::release(connection, keys)?;
        let mut usage = Usage::new(vec![Bound::new(Bound::KEYS, keys, self.keys_max)]);
        usage.reorder_depths = self.restart.depths();
        Ok(usage)
    }
}

/// Counts the unfinished messages of lanes, each up to its limit.
pub(crate) async fn count_unfinished<'a>(
    sql: &Sql,
    connection: &mut PgConnection,
    lanes: impl Iterator<Item = (&'a LaneKey, u64)>,
) -> Result<Vec<u64>, Error> {
    let (mut namespaces, mut topics, mut shards, mut limits) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((lane_namespace, topic, shard), limit) in lanes {
        namespaces.push(namespace(*lane_namespace));
        topics.push(topic.as_str());
        shards.push(i32::from(shard.0));
        limits.push(i64::try_from(limit).unwrap_or(i64::MAX));
    }
    let rows = sql.lane_counts.query().bind(&namespaces).bind(&topics).bind(&shards).bind(&limits);
    let rows = rows.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
    let count = |row| Ok(u64::try_from(Cells::new(row).next::<i64>()?).unwrap_or_default());
    rows.iter().map(count).collect()
}
