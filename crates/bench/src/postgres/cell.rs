//! One row of the table: one load, our side against one rival.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::raw::Ack;
use super::server::Server;
use crate::drive::{Bench, Load, Run, Side, micros};
use crate::messages::Messages;
use crate::pairs::{Comparison, try_alternate};

pub(super) struct Cell<'a> {
    pub(super) bench: &'a Bench,
    pub(super) server: &'a Server,
    pub(super) load: Load,
    pub(super) rounds: usize,
}

/// The results of a row.
pub(super) struct Row {
    pub(super) comparison: Comparison,
    ours: Sums,
    rival: Sums,
}

/// The results of all rounds of one side.
#[derive(Default)]
pub(super) struct Sums {
    accepts: Vec<Duration>,
    claims: Vec<Duration>,
    lifecycles: f64,
    wal_bytes: f64,
}

impl Cell<'_> {
    /// Runs paired rounds on new tables, after one warm-up round of each side.
    pub(super) fn against_raw(&self, ack: Ack) -> Result<Row, String> {
        let (our_tables, ours) = self.server.ours(self.bench, self.load)?;
        let (raw_tables, raw) = self.server.raw(self.bench, self.load, ack)?;
        let source = RefCell::new(Messages::new(self.load.payload_bytes));
        let mut ours = Rounds::begin(self, ours, &source)?;
        let mut raw = Rounds::begin(self, raw, &source)?;
        let comparison = try_alternate(
            self.rounds,
            || ours.next().map(|run| run.per_second),
            || raw.next().map(|run| run.per_second),
        )?;
        self.server.retire(self.bench, &our_tables)?;
        self.server.retire(self.bench, &raw_tables)?;
        Ok(Row { comparison, ours: ours.sums, rival: raw.sums })
    }
}

/// The rounds of one side.
pub(super) struct Rounds<'a, S> {
    cell: &'a Cell<'a>,
    side: Arc<S>,
    source: &'a RefCell<Messages>,
    expected: f64,
    sums: Sums,
}

impl<'a, S: Side> Rounds<'a, S> {
    /// Calibrates and runs one warm-up round.
    pub(super) fn begin(
        cell: &'a Cell<'a>,
        side: Arc<S>,
        source: &'a RefCell<Messages>,
    ) -> Result<Self, String> {
        let expected = cell.bench.calibrate(&side, cell.load, &mut source.borrow_mut());
        let mut rounds = Self { cell, side, source, expected, sums: Sums::default() };
        rounds.next()?;
        rounds.sums = Sums::default();
        Ok(rounds)
    }

    pub(super) fn next(&mut self) -> Result<Run, String> {
        let Cell { bench, server, load, .. } = *self.cell;
        let before = server.wal_bytes()?;
        let run = bench.run(&self.side, load, &mut self.source.borrow_mut(), &mut self.expected);
        self.sums.wal_bytes += server.wal_bytes()? - before;
        self.sums.lifecycles += run.lifecycles;
        self.sums.accepts.extend(&run.accepts);
        self.sums.claims.extend(&run.claims);
        Ok(run)
    }
}

impl Row {
    pub(super) fn print_head() {
        println!(
            "{:>11} {:>10} {:>8} {:>8} {:>6}   ours and the rival's: accept µs p50/p95, claim µs p50/p95, WAL bytes per lifecycle",
            "load", "rival", "ours/s", "rival/s", "ratio"
        );
    }

    pub(super) fn print(self, load: &str, rival: &str) {
        let Comparison { ours_per_second, rival_per_second, ratio } = self.comparison;
        println!(
            "{load:>11} {rival:>10} {ours_per_second:>8.0} {rival_per_second:>8.0} {ratio:>6.2}   {}; {}",
            self.ours.summary(),
            self.rival.summary()
        );
    }
}

impl Sums {
    fn summary(mut self) -> String {
        self.accepts.sort();
        self.claims.sort();
        let [accept, claim] = [&self.accepts, &self.claims]
            .map(|took| format!("{:.0}/{:.0}", micros(took, 50), micros(took, 95)));
        format!("{accept}, {claim}, {:.0}", self.wal_bytes / self.lifecycles)
    }
}
