//! One row of the table: one load, our server against one rival or alone.

use super::job::{Load, Outcome, Peer, Task};
use super::process::Server;
use crate::embedded::work_dir::WorkDir;
use crate::pairs::{Comparison, median, try_alternate};

pub(super) struct Cell<'a> {
    pub(super) work_dir: &'a WorkDir,
    pub(super) name: &'static str,
    pub(super) load: Load,
    pub(super) task: Task,
    /// How long a round sends.
    pub(super) seconds: f64,
    pub(super) rounds: usize,
}

/// The results of a row.
pub(super) struct Row {
    name: &'static str,
    rival: Option<Peer>,
    pub(super) comparison: Comparison,
    ours: Vec<Outcome>,
    rivals: Vec<Outcome>,
}

impl Cell<'_> {
    /// Runs paired rounds of our server and a rival.
    pub(super) fn against(&self, rival: Peer) -> Result<Row, String> {
        self.pair(Peer::Oncebox, rival)
    }

    /// Runs paired rounds on new servers, after one warm-up round of each side.
    pub(super) fn pair(&self, ours: Peer, rival: Peer) -> Result<Row, String> {
        let (our_server, rival_server) =
            (Server::start(self.work_dir, ours)?, Server::start(self.work_dir, rival)?);
        self.round(&our_server)?;
        self.round(&rival_server)?;
        let (mut ours, mut rivals) = (Vec::new(), Vec::new());
        let comparison = try_alternate(
            self.rounds,
            || self.round(&our_server).map(|outcome| record(&mut ours, outcome)),
            || self.round(&rival_server).map(|outcome| record(&mut rivals, outcome)),
        )?;
        Ok(Row { name: self.name, rival: Some(rival), comparison, ours, rivals })
    }

    /// Runs rounds of our server only.
    pub(super) fn alone(&self) -> Result<Row, String> {
        let server = Server::start(self.work_dir, Peer::Oncebox)?;
        self.round(&server)?;
        let ours: Vec<Outcome> = (0..self.rounds).map(|_| self.round(&server)).collect::<Result<_, _>>()?;
        let ours_per_second = median_of(&ours, |outcome| outcome.per_second);
        let comparison = Comparison { ours_per_second, rival_per_second: 0.0, ratio: 0.0 };
        Ok(Row { name: self.name, rival: None, comparison, ours, rivals: Vec::new() })
    }

    fn round(&self, server: &Server) -> Result<Outcome, String> {
        server.load(self.load, self.task, self.seconds)
    }
}

fn record(outcomes: &mut Vec<Outcome>, outcome: Outcome) -> f64 {
    outcomes.push(outcome);
    outcome.per_second
}

fn median_of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    median(outcomes.iter().map(value).collect())
}

impl Row {
    pub(super) fn print_head() {
        println!(
            "{:>12} {:>10} {:>9} {:>9} {:>7}   ours and the rival's: sent/s, received and acked/s, send µs p50/p95",
            "load", "rival", "ours/s", "rival/s", "ratio"
        );
    }

    pub(super) fn print(&self) {
        let Comparison { ours_per_second, rival_per_second, ratio } = self.comparison;
        let (name, ours) = (self.name, summary(&self.ours));
        match self.rival {
            Some(rival) => println!(
                "{name:>12} {rival:>10} {ours_per_second:>9.0} {rival_per_second:>9.0} {ratio:>7.2}   {ours}; {}",
                summary(&self.rivals)
            ),
            None => println!("{name:>12} {:>10} {ours_per_second:>9.0} {:>9} {:>7}   {ours}", "-", "-", "-"),
        }
    }
}

/// Medians of the rounds.
fn summary(outcomes: &[Outcome]) -> String {
    format!(
        "{:.0}, {:.0}, {:.0}/{:.0}",
        median_of(outcomes, |outcome| outcome.sent_per_second),
        median_of(outcomes, |outcome| outcome.drained_per_second),
        median_of(outcomes, |outcome| outcome.latency.p50),
        median_of(outcomes, |outcome| outcome.latency.p95)
    )
}
