//! The power-cut campaign: copies a real file system under load. The copy must contain everything that was answered
//! before.

use std::path::PathBuf;
use std::time::Duration;

use crate::child::{ChildProcess, Next};
use crate::kill::dump;
use crate::model::{Guarantee, Model, Stage};
use crate::random::{Random, uptime};
use crate::rig::Rig;
use crate::{Result, Violation};

/// Maximum time between two cuts.
const WORK_MAX: Duration = Duration::from_millis(150);
/// Percentage of cuts that follow shortly after a restart of the process.
const RESTARTS_PERCENT: u64 = 10;

/// The arguments of the campaign.
#[derive(Debug, Clone)]
pub struct PowercutCampaign {
    /// The program of the process under test.
    pub program: PathBuf,
    /// The directory of the rig. Must not exist; removed at the end.
    pub directory: PathBuf,
    /// Number of power cuts.
    pub cuts: u64,
    /// Seed of the random choices.
    pub seed: u64,
}

struct Run<'a> {
    campaign: &'a PowercutCampaign,
    /// Declared before the rig to be dropped first: a running process blocks the unmount.
    child: ChildProcess,
    rig: Rig,
    random: Random,
    model: Model,
    restarts: u64,
    opening: u64,
}

/// Runs all cuts and returns a summary. Fails at the first violation.
pub fn run(campaign: &PowercutCampaign) -> std::result::Result<String, Violation> {
    let rig = Rig::build(&campaign.directory)?;
    let mut random = Random::new(campaign.seed);
    let mut model = Model::new(Guarantee::SurvivesMachine);
    let child = load(campaign, &rig, &mut random, &mut model)?;
    let mut run = Run { campaign, child, rig, random, model, restarts: 0, opening: 0 };
    for cut in 1..=campaign.cuts {
        let in_cut = |violation| Violation::new(format!("cut {cut}, seed {}: {violation}", campaign.seed));
        run.cut().map_err(in_cut)?;
        if cut % 20 == 0 {
            println!("powercut: {cut} cuts, {} calls answered", run.model.tally.calls);
        }
    }
    Ok(format!(
        "powercut: {} cuts, {} of them while opening, {} restarts; {}",
        campaign.cuts,
        run.opening,
        run.restarts,
        run.model.tally.summary(run.model.fences.len())
    ))
}

fn load(
    campaign: &PowercutCampaign,
    rig: &Rig,
    random: &mut Random,
    model: &mut Model,
) -> Result<ChildProcess> {
    model.begin_run();
    let (store, seed) = (rig.store(), random.next().to_string());
    ChildProcess::start(&campaign.program, &["load", &store.to_string_lossy(), "--seed", &seed])
}

impl Run<'_> {
    fn cut(&mut self) -> Result<()> {
        if self.random.percent(RESTARTS_PERCENT) {
            self.child.kill()?;
            while let Some(line) = self.child.next()? {
                self.model.apply(&line)?;
            }
            self.child = load(self.campaign, &self.rig, &mut self.random, &mut self.model)?;
            self.restarts += 1;
            self.work(Duration::from_millis(20))?;
        } else {
            self.work(WORK_MAX)?;
        }
        self.catch_up("before")?;
        self.model.begin_copy();
        let opening = self.model.stage < Stage::Open;
        self.rig.copy()?;
        self.catch_up("after")?;
        self.opening += u64::from(opening);
        let mut copy = self.model.fork();
        self.model.end_copy();
        self.rig.with_copy(|store| dump(&self.campaign.program, store, &mut copy))?;
        self.model.tally = copy.tally;
        Ok(())
    }

    /// Reads lines for a random time of at most `longest`.
    fn work(&mut self, longest: Duration) -> Result<()> {
        let deadline = uptime() + self.random.within(longest);
        while uptime() < deadline {
            match self.child.next_until(deadline) {
                Next::Line(line) => self.model.apply(&line)?,
                Next::Timeout => break,
                Next::End => {
                    return Err(Violation::new("the process under test exited on its own: see above"));
                }
            }
        }
        Ok(())
    }

    /// Reads all lines that the process wrote before this call.
    fn catch_up(&mut self, word: &str) -> Result<()> {
        self.child.ping(word)?;
        self.model.pong.clear();
        while self.model.pong != word {
            let ended = || Violation::new("the process under test exited on its own: see above");
            let line = self.child.next()?.ok_or_else(ended)?;
            self.model.apply(&line)?;
        }
        Ok(())
    }
}
