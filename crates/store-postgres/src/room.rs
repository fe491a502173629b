//! Whether lanes have room, without counting them at every call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Error, NewMessage};
use oncebox_system::uptime;
use sqlx::{PgConnection, Row};

use crate::codes::namespace;
use crate::fast::{LaneOf, lane_of};
use crate::fault;
use crate::store::PostgresStore;

/// A count is good for this long: so late this process notices what others have taken in.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// Lanes whose counts are kept, at most.
const LANES_MAX: usize = 4_096;

/// What lanes held when they were counted, and what this process has added since. What has left them is not taken off, so
/// for this process alone it is never too little.
#[derive(Default)]
pub(crate) struct LaneCounts(Mutex<HashMap<LaneOf, Count>>);

struct Count {
    messages: u64,
    at: Duration,
}

impl LaneCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<LaneOf, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a message came into its lane.
    pub(crate) fn note(&self, message: &NewMessage) {
        if let Some(count) = self.lock().get_mut(&lane_of(message)) {
            count.messages += 1;
        }
    }

    /// Forgets all counts: messages came into lanes in other ways.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// Tells for each item of a call whether its lane is full, should all those before it be new.
    pub(crate) async fn full(
        &self,
        store: &PostgresStore,
        connection: &mut PgConnection,
        messages: &[NewMessage],
    ) -> Result<Vec<bool>, Error> {
        let mut wanted: HashMap<LaneOf, u64> = HashMap::new();
        for message in messages {
            if let Some(max) = message.lane_max {
                let most = wanted.entry(lane_of(message)).or_default();
                *most = (*most).max(u64::from(max.get()));
            }
        }
        if wanted.is_empty() {
            return Ok(vec![false; messages.len()]);
        }
        let now = uptime();
        let mut known: HashMap<LaneOf, u64> = self
            .lock()
            .iter()
            .filter(|(lane, count)| wanted.contains_key(lane) && now.saturating_sub(count.at) < GOOD_FOR)
            .map(|(lane, count)| (lane.clone(), count.messages))
            .collect();
        let doubtful = |lane: &LaneOf, most: u64| {
            known.get(lane).is_none_or(|count| count.saturating_add(messages.len() as u64) > most)
        };
        let counted: Vec<_> = wanted.iter().filter(|(lane, most)| doubtful(lane, **most)).collect();
        if !counted.is_empty() {
            let fresh = count(store, connection, &counted).await?;
            let mut counts = self.lock();
            if counts.len() > LANES_MAX {
                counts.clear();
            }
            for (lane, messages) in fresh {
                counts.insert(lane.clone(), Count { messages, at: now });
                known.insert(lane, messages);
            }
        }
        let full = messages.iter().map(|message| {
            let Some(count) = known.get_mut(&lane_of(message)) else { return false };
            let is_full = message.lane_max.is_some_and(|max| *count >= u64::from(max.get()));
            *count += u64::from(!is_full);
            is_full
        });
        Ok(full.collect())
    }
}

async fn count(
    store: &PostgresStore,
    connection: &mut PgConnection,
    lanes: &[(&LaneOf, &u64)],
) -> Result<Vec<(LaneOf, u64)>, Error> {
    let namespaces: Vec<i16> = lanes.iter().map(|(lane, _)| namespace(lane.0)).collect();
    let topics: Vec<&str> = lanes.iter().map(|(lane, _)| lane.1.as_str()).collect();
    let shards: Vec<i32> = lanes.iter().map(|(lane, _)| lane.2).collect();
    let most: Vec<i64> = lanes.iter().map(|(_, most)| i64::try_from(**most).unwrap_or(i64::MAX)).collect();
    // Whoever has expired takes no room.
    store.catch_up(connection).await?;
    let rows = store.sql.lane_counts.query().bind(&namespaces).bind(&topics).bind(&shards).bind(&most);
    let rows = rows.fetch_all(&mut *connection).await.map_err(fault::told)?;
    let counted = lanes.iter().zip(rows).map(|((lane, _), row)| {
        let messages: i64 = row.try_get(0).map_err(fault::told)?;
        Ok(((*lane).clone(), u64::try_from(messages).unwrap_or_default()))
    });
    counted.collect()
}
