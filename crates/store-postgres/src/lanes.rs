//! Lanes in statements: as parameters, and how many unfinished messages they have.

use oncebox_core::Error;
use sqlx::PgConnection;

use crate::codes::namespace;
use crate::db_error;
use crate::hints::Lane;
use crate::rows::Cells;
use crate::sql::Sql;
use oncebox_store_rows::LaneKey;

/// Lanes as statement parameters: their topics and their shards.
pub(crate) fn columns(lanes: &[Lane]) -> (Vec<&str>, Vec<i32>) {
    lanes.iter().map(|(topic, shard)| (topic.as_str(), *shard)).unzip()
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
