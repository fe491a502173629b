//! One row of the table: one load, our side against one rival.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::raw::Raw;
use super::store::open_store;
use super::work_dir::WorkDir;
#[cfg(feature = "sqlite")]
use crate::drive::Style;
use crate::drive::{Bench, Load, Side, micros};
use crate::messages::Messages;
use crate::ours::Ours;
use crate::pairs::{Comparison, alternate};

pub(crate) const WITH_SQLITE: bool = cfg!(feature = "sqlite");

pub(crate) struct Cell<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) work_dir: &'a WorkDir,
    pub(crate) load: Load,
    /// Use a disk with slow syncs.
    pub(crate) slow: bool,
}

/// The results of a row, with the sorted latencies of accept on both sides.
pub(crate) struct Row {
    pub(crate) comparison: Comparison,
    ours: Vec<Duration>,
    rival: Vec<Duration>,
}

impl Cell<'_> {
    pub(crate) fn against_raw(&self, rounds: usize) -> Row {
        self.against(rounds, &Raw::open(&self.work_dir.fresh("raw"), self.slow))
    }

    /// `None` if the binary was built without `SQLite`, and for the two-call style, which a plain queue does not have.
    #[cfg(feature = "sqlite")]
    pub(crate) fn against_sqlite(&self, rounds: usize) -> Option<Row> {
        if self.load.style == Style::TwoCalls {
            return None;
        }
        Some(self.against(rounds, &super::sqlite::Sqlite::open(&self.work_dir.fresh("sqlite"))))
    }

    #[cfg(not(feature = "sqlite"))]
    #[expect(clippy::unused_self, reason = "uses self with the feature sqlite")]
    pub(crate) fn against_sqlite(&self, _rounds: usize) -> Option<Row> {
        None
    }

    fn against<S: Side>(&self, rounds: usize, rival: &Arc<S>) -> Row {
        let store = open_store(&self.work_dir.fresh("ours"), None, self.slow);
        let ours = Ours::new(self.bench, Arc::new(store), self.load);
        let source = RefCell::new(Messages::new(self.load.payload_bytes));
        let mut our_rate = self.bench.calibrate(&ours, self.load, &mut source.borrow_mut());
        let mut rival_rate = self.bench.calibrate(rival, self.load, &mut source.borrow_mut());
        let (mut our_accepts, mut rival_accepts) = (Vec::new(), Vec::new());
        let comparison = alternate(
            rounds,
            || {
                let run = self.bench.run(&ours, self.load, &mut source.borrow_mut(), &mut our_rate);
                our_accepts.extend(run.accepts);
                run.per_second
            },
            || {
                let run = self.bench.run(rival, self.load, &mut source.borrow_mut(), &mut rival_rate);
                rival_accepts.extend(run.accepts);
                run.per_second
            },
        );
        our_accepts.sort();
        rival_accepts.sort();
        Row { comparison, ours: our_accepts, rival: rival_accepts }
    }
}

impl Row {
    /// Ratio of our longest accept to the rival's.
    pub(crate) fn pause_ratio(&self) -> f64 {
        micros(&self.ours, 100) / micros(&self.rival, 100)
    }

    pub(crate) fn print_head() {
        println!(
            "{:>15} {:>7} {:>10} {:>10} {:>7}   accept µs, p50/p95/p99/longest: ours, rival",
            "load", "rival", "ours/s", "rival/s", "ratio"
        );
    }

    pub(crate) fn print(&self, load: &str, rival: &str) {
        let Comparison { ours_per_second, rival_per_second, ratio } = self.comparison;
        println!(
            "{load:>15} {rival:>7} {ours_per_second:>10.0} {rival_per_second:>10.0} {ratio:>7.2}   {}, {}",
            latencies(&self.ours),
            latencies(&self.rival)
        );
    }
}

fn latencies(sorted: &[Duration]) -> String {
    let [p50, p95, p99, longest] = [50, 95, 99, 100].map(|percent| micros(sorted, percent));
    format!("{p50:.0}/{p95:.0}/{p99:.0}/{longest:.0}")
}
