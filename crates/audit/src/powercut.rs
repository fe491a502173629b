//! Power cuts on a real file system: the disk is copied under load, and the copy must hold everything that was answered
//! before.

use std::path::PathBuf;
use std::time::Duration;

use crate::child::{Next, Running};
use crate::kill::dump;
use crate::random::{Random, uptime};
use crate::rig::Rig;
use crate::world::{Promise, Stage, World};
use crate::{Fault, Result};

/// Between two cuts passes so long at most.
const WORK_MAX: Duration = Duration::from_millis(150);
/// Of a hundred cuts, so many come soon after the process was killed and started again.
const RESTARTS_PERCENT: u64 = 10;

/// What to run, where, and how often.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The process under test.
    pub program: PathBuf,
    /// Where the rig is built: must not exist. Removed at the end.
    pub directory: PathBuf,
    /// How often the power is cut.
    pub cuts: u64,
    /// Where the random choices begin.
    pub seed: u64,
}

struct Run<'a> {
    campaign: &'a Campaign,
    /// Before the rig, which cannot be taken down under a running process.
    child: Running,
    rig: Rig,
    random: Random,
    world: World,
    restarts: u64,
    opening: u64,
}

/// Runs all cuts; the answer tells what was seen. The first broken promise ends it.
pub fn run(campaign: &Campaign) -> std::result::Result<String, Fault> {
    let rig = Rig::build(&campaign.directory)?;
    let mut random = Random::new(campaign.seed);
    let mut world = World::new(Promise::Machine);
    let child = load(campaign, &rig, &mut random, &mut world)?;
    let mut run = Run { campaign, child, rig, random, world, restarts: 0, opening: 0 };
    for cut in 1..=campaign.cuts {
        let place = |fault| Fault::new(format!("cut {cut}, seed {}: {fault}", campaign.seed));
        run.cut().map_err(place)?;
        if cut % 20 == 0 {
            println!("powercut: {cut} cuts, {} calls answered", run.world.tally.calls);
        }
    }
    Ok(format!(
        "powercut: {} cuts, {} of them while opening, {} restarts; {}",
        campaign.cuts,
        run.opening,
        run.restarts,
        run.world.tally.closing(run.world.fences.len())
    ))
}

fn load(campaign: &Campaign, rig: &Rig, random: &mut Random, world: &mut World) -> Result<Running> {
    world.begin_run();
    let (store, seed) = (rig.store(), random.next().to_string());
    Running::start(&campaign.program, &["load", &store.to_string_lossy(), "--seed", &seed])
}

impl Run<'_> {
    fn cut(&mut self) -> Result<()> {
        if self.random.percent(RESTARTS_PERCENT) {
            self.child.kill()?;
            while let Some(line) = self.child.next()? {
                self.world.hear(&line)?;
            }
            self.child = load(self.campaign, &self.rig, &mut self.random, &mut self.world)?;
            self.restarts += 1;
            self.work(Duration::from_millis(20))?;
        } else {
            self.work(WORK_MAX)?;
        }
        self.catch_up("before")?;
        self.world.begin_copy();
        let opening = self.world.stage < Stage::Open;
        self.rig.copy()?;
        self.catch_up("after")?;
        self.opening += u64::from(opening);
        let mut copy = self.world.fork();
        self.world.end_copy();
        self.rig.with_copy(|store| dump(&self.campaign.program, store, &mut copy))?;
        self.world.tally = copy.tally;
        Ok(())
    }

    /// Listens for a random while.
    fn work(&mut self, longest: Duration) -> Result<()> {
        let moment = uptime() + self.random.within(longest);
        while uptime() < moment {
            match self.child.next_until(moment) {
                Next::Line(line) => self.world.hear(&line)?,
                Next::Quiet => break,
                Next::End => return Err(Fault::new("the process under test ended by itself: see above")),
            }
        }
        Ok(())
    }

    /// Listens until everything that was told before now has been heard.
    fn catch_up(&mut self, word: &str) -> Result<()> {
        self.child.ping(word)?;
        self.world.pong.clear();
        while self.world.pong != word {
            let ended = || Fault::new("the process under test ended by itself: see above");
            let line = self.child.next()?.ok_or_else(ended)?;
            self.world.hear(&line)?;
        }
        Ok(())
    }
}
