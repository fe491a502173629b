//! Whether there is room: in the lanes of messages, and for keys.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use oncebox_core::{Bound, Error, NewMessage, Usage};
use oncebox_system::uptime;
use sqlx::PgConnection;

use crate::codes::namespace;
use crate::fault;
use crate::hints::{Demand, LaneOf, lane_of};
use crate::rows::Cells;
use crate::sql::Sql;
use crate::store::PostgresStore;

/// Keys are counted up to this, and estimated beyond.
const KEYS_COUNTED_MAX: i64 = 10_000;
/// So long a process believes that keys are full, or are not.
const KEYS_GOOD_FOR: Duration = Duration::from_secs(1);

impl PostgresStore {
    /// Tells for each item of a call whether its lane is full, should all those before it be new.
    pub(crate) async fn full_lanes(
        &self,
        connection: &mut PgConnection,
        messages: &[NewMessage],
    ) -> Result<Vec<bool>, Error> {
        let mut demands: HashMap<LaneOf, Demand> = HashMap::new();
        for message in messages.iter().filter(|message| message.lane_max.is_some()) {
            let demand = demands.entry(lane_of(message)).or_default();
            demand.max = demand.max.max(message.lane_max.map_or(0, |max| u64::from(max.get())));
        }
        if demands.is_empty() {
            return Ok(vec![false; messages.len()]);
        }
        // What has no bound fills a lane as well.
        for message in messages {
            if let Some(demand) = demands.get_mut(&lane_of(message)) {
                demand.items += 1;
            }
        }
        let (now, mut filled) = (uptime(), HashMap::with_capacity(demands.len()));
        let mut doubtful = Vec::new();
        for (lane, demand) in demands {
            match self.hints.fullness.known(&lane, demand, now) {
                Some(count) => drop(filled.insert(lane, count)),
                None => doubtful.push((lane, demand)),
            }
        }
        if !doubtful.is_empty() {
            let lanes = || doubtful.iter().map(|(lane, demand)| (lane, demand.max));
            let mut counts = count_lanes(&self.sql, connection, lanes()).await?;
            if counts.iter().zip(&doubtful).any(|(count, (_, demand))| count + demand.items > demand.max) {
                // What has expired takes no room.
                self.catch_up(connection).await?;
                counts = count_lanes(&self.sql, connection, lanes()).await?;
            }
            for ((lane, _), count) in doubtful.into_iter().zip(counts) {
                self.hints.fullness.counted(lane.clone(), count, now);
                filled.insert(lane, count);
            }
        }
        let full = messages.iter().map(|message| {
            let Some(count) = filled.get_mut(&lane_of(message)) else { return false };
            let is_full = message.lane_max.is_some_and(|max| *count >= u64::from(max.get()));
            *count += u64::from(!is_full);
            is_full
        });
        Ok(full.collect())
    }

    /// Asks once a second whether the store has as many keys as it may.
    pub(crate) async fn refresh_keys(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let now = uptime();
        let asked = *self.hints.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_some_and(|(_, at)| now.saturating_sub(at) < KEYS_GOOD_FOR) {
            return Ok(());
        }
        let full = self.count_keys(connection).await? >= self.keys_max;
        *self.hints.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some((full, now));
        Ok(())
    }

    async fn count_keys(&self, connection: &mut PgConnection) -> Result<u64, Error> {
        let row = self.sql.usage.query().bind(&*self.message_table).fetch_one(connection).await;
        let keys: i64 = Cells::new(&row.map_err(fault::told)?).next()?;
        Ok(u64::try_from(keys).unwrap_or_default())
    }

    /// The same, exactly as long as they are few. A server that only reads is no place to take something in.
    async fn count_few_keys(&self, connection: &mut PgConnection) -> Result<u64, Error> {
        let query = self.sql.keys.query().bind(&*self.message_table).bind(KEYS_COUNTED_MAX + 1);
        let row = query.fetch_one(connection).await.map_err(fault::told)?;
        let mut cells = Cells::new(&row);
        cells.check_writable()?;
        let (counted, estimated): (i64, i64) = (cells.next()?, cells.next()?);
        let keys = if counted > KEYS_COUNTED_MAX { estimated.max(counted) } else { counted };
        Ok(u64::try_from(keys).unwrap_or_default())
    }

    /// The bound that left no room, as the store has it: the machine knows only that there is none.
    pub(crate) fn named(&self, bound: Bound) -> Bound {
        if bound.name == Bound::KEYS { Bound::new(Bound::KEYS, self.keys_max, self.keys_max) } else { bound }
    }

    /// Whether a new key is refused.
    pub(crate) fn keys_are_full(&self) -> bool {
        self.hints.keys.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|(full, _)| full)
    }

    /// How much of its bounds the store uses. Many keys are estimated from the server's statistics, which may be some seconds old.
    pub(crate) async fn bounds_used(&self) -> Result<Usage, Error> {
        let mut connection = self.connection().await?;
        let keys = self.count_few_keys(&mut connection).await;
        let keys = Self::give_back(connection, keys)?;
        let mut usage = Usage::new(vec![Bound::new(Bound::KEYS, keys, self.keys_max)]);
        usage.reorder_depths = self.restart.depths();
        Ok(usage)
    }
}

/// How many unfinished messages lanes have, each counted up to its bound.
pub(crate) async fn count_lanes<'a>(
    sql: &Sql,
    connection: &mut PgConnection,
    lanes: impl Iterator<Item = (&'a LaneOf, u64)>,
) -> Result<Vec<u64>, Error> {
    let (mut namespaces, mut topics, mut shards, mut most) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((space, topic, shard), bound) in lanes {
        namespaces.push(namespace(*space));
        topics.push(topic.as_str());
        shards.push(i32::from(shard.0));
        most.push(i64::try_from(bound).unwrap_or(i64::MAX));
    }
    let rows = sql.lane_counts.query().bind(&namespaces).bind(&topics).bind(&shards).bind(&most);
    let rows = rows.fetch_all(&mut *connection).await.map_err(fault::told)?;
    let count = |row| Ok(u64::try_from(Cells::new(row).next::<i64>()?).unwrap_or_default());
    rows.iter().map(count).collect()
}
