//! The cost of an old snapshot, which keeps vacuum from removing rows that died since: a forgotten session, a long
//! report or a replica with hot standby feedback.

use std::cell::RefCell;
use std::time::Duration;

use oncebox_system::uptime;
use sqlx::{Connection, Executor, PgConnection};

use super::cell::{Cell, Rounds};
use crate::drive::Side;
use crate::messages::Messages;
use crate::pairs::median;
use crate::report::Report;

/// The duration of each phase.
pub(super) struct Times {
    /// How long a rate is measured.
    rate: Duration,
    pinned: Duration,
    /// From the release of the snapshot to the last measurement.
    after: Duration,
}

pub(super) const LONG: Times =
    Times { rate: Duration::from_secs(20), pinned: Duration::from_secs(300), after: Duration::from_secs(60) };

pub(super) const SHORT: Times =
    Times { rate: Duration::from_secs(3), pinned: Duration::from_secs(10), after: Duration::from_secs(5) };

/// How often an intermediate rate is printed.
const PRINT_INTERVAL: Duration = Duration::from_secs(30);

pub(super) fn run(cell: &Cell<'_>, times: &Times, report: &mut Report) -> Result<(), String> {
    let Cell { bench, server, load, .. } = *cell;
    println!(
        "\nan old snapshot held for {} s of load, {} unbatched callers",
        times.pinned.as_secs(),
        load.callers
    );
    let (tables, ours) = server.ours(bench, load)?;
    let source = RefCell::new(Messages::new(load.payload_bytes));
    let mut rounds = Rounds::begin(cell, ours, &source)?;
    let before = rate(&mut rounds, times.rate)?;
    println!("  before: {before:.0} lifecycles/s");
    let snapshot = bench.runtime.block_on(hold(&server.url())).map_err(|error| error.to_string())?;
    run_load(&mut rounds, times.pinned.saturating_sub(times.rate))?;
    let pinned = rate(&mut rounds, times.rate)?;
    println!("  at its end: {pinned:.0} lifecycles/s");
    bench.runtime.block_on(snapshot.close()).map_err(|error| error.to_string())?;
    run_load(&mut rounds, times.after)?;
    let after = rate(&mut rounds, times.rate)?;
    println!("  {} s later: {after:.0} lifecycles/s", times.after.as_secs());
    report.figure("postgres.pinned_horizon.cost", before / pinned);
    report.figure("postgres.pinned_horizon.after", before / after);
    server.retire(bench, &tables)
}

/// Opens a session that takes a snapshot and keeps it.
async fn hold(url: &str) -> Result<PgConnection, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    connection.execute("begin isolation level repeatable read").await?;
    connection.execute("select count(*) from pg_class").await?;
    Ok(connection)
}

/// The median rate of the rounds within this time.
fn rate<S: Side>(rounds: &mut Rounds<'_, S>, duration: Duration) -> Result<f64, String> {
    let end = uptime() + duration;
    let mut rates = Vec::new();
    while rates.is_empty() || uptime() < end {
        rates.push(rounds.next()?.per_second);
    }
    Ok(median(rates))
}

/// Runs the load for this time and prints intermediate rates.
fn run_load<S: Side>(rounds: &mut Rounds<'_, S>, duration: Duration) -> Result<(), String> {
    let (start, end) = (uptime(), uptime() + duration);
    while uptime() < end {
        let rate = rate(rounds, PRINT_INTERVAL.min(end.saturating_sub(uptime())))?;
        println!("  {:>4} s {rate:>8.0} lifecycles/s", uptime().saturating_sub(start).as_secs());
    }
    Ok(())
}
