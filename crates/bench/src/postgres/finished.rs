//! What a claim costs beside many finished messages whose keys are remembered, against one on tables that have few.

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
    // A rate is what both sides of a pair have, so here it is claims per second at the 95th percentile.
    let Comparison { ours_per_second, rival_per_second, ratio } =
        try_alternate(rounds, || few.next().map(at_p95), || many.next().map(at_p95))?;
    println!(
        "\na claim's µs p95, one caller: {:.0} beside few finished messages, {:.0} beside {count}",
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
