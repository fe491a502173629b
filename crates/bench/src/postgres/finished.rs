//! The cost of a claim when many finished messages are retained for their keys, compared with tables that have few.

use std::cell::RefCell;

use super::cell::{Cell, Rounds};
use crate::drive::{Run, micros};
use crate::messages::Messages;
use crate::pairs::{Comparison, try_alternate};
use crate::report::Report;

pub(super) fn run(cell: &Cell<'_>, count: u32, report: &mut Report) -> Result<(), String> {
    let Cell { bench, server, load, rounds } = *cell;
    let (few_tables, few) = server.ours(bench, load)?;
    let (many_tables, many) = server.ours(bench, load)?;
    let schema = &many_tables.schema;
    let fill =
        include_str!("finished.sql").replace("{schema}", schema).replace("{count}", &count.to_string());
    server.psql(&fill)?;
    server.psql(&format!("vacuum analyze {schema}.message"))?;
    server.psql("checkpoint")?;
    let source = RefCell::new(Messages::new(load.payload_bytes));
    let mut few = Rounds::begin(cell, few, &source)?;
    let mut many = Rounds::begin(cell, many, &source)?;
    // Pairs compare rates, so the 95th percentile is expressed as claims per second.
    let Comparison { ours_per_second, rival_per_second, ratio } =
        try_alternate(rounds, || few.next().map(at_p95), || many.next().map(at_p95))?;
    println!(
        "\nclaim µs p95, one caller: {:.0} with few finished messages, {:.0} with {count}",
        1e6 / ours_per_second,
        1e6 / rival_per_second
    );
    report.figure("postgres.finished_1m.claim_p95_growth", ratio);
    server.retire(bench, &few_tables)?;
    server.retire(bench, &many_tables)
}

fn at_p95(mut run: Run) -> f64 {
    run.claims.sort();
    1e6 / micros(&run.claims, 95)
}
