//! SIGKILL under load, over and over on one directory, some of them while the store is being opened.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::{Next, Running};
use crate::random::{Random, uptime};
use crate::world::{Promise, Stage, World};
use crate::{Fault, Result};

/// A process works for so long at most before it is killed.
const WORK_MAX: Duration = Duration::from_millis(200);
/// How long the first opening is expected to take; from then on it is measured.
const OPENING_FIRST: Duration = Duration::from_millis(20);

/// What to run, where, and how often.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The process under test.
    pub program: PathBuf,
    /// Where its store is made: must not exist. Removed at the end, kept after a fault.
    pub directory: PathBuf,
    /// How many processes are killed under load.
    pub cycles: u64,
    /// Where the random choices begin.
    pub seed: u64,
}

/// A campaign on its way.
struct Run<'a> {
    campaign: &'a Campaign,
    random: Random,
    world: World,
    /// How long the last opening took.
    opening: Duration,
    killed_opening: u64,
    second: u64,
    second_opening: u64,
}

/// Runs all cycles; the answer tells what was seen. The first broken promise ends it.
pub fn run(campaign: &Campaign) -> std::result::Result<String, Fault> {
    let mut run = Run {
        campaign,
        random: Random::new(campaign.seed),
        world: World::new(Promise::Process),
        opening: OPENING_FIRST,
        killed_opening: 0,
        second: 0,
        second_opening: 0,
    };
    for cycle in 1..=campaign.cycles {
        run.cycle().map_err(|fault| {
            let place = campaign.directory.display();
            Fault::new(format!(
                "cycle {cycle}, seed {}: {fault}\nthe store is left in {place}",
                campaign.seed
            ))
        })?;
        if cycle % 50 == 0 {
            println!("kill: {cycle} cycles, {} calls answered", run.world.tally.calls);
        }
    }
    fs::remove_dir_all(&campaign.directory)
        .map_err(|error| Fault::new(format!("the store's directory cannot be removed: {error}")))?;
    Ok(run.closing())
}

impl Run<'_> {
    fn cycle(&mut self) -> Result<()> {
        let opening = self.random.percent(15);
        self.killed_opening += u64::from(self.kill_load(opening)?);
        if self.random.percent(50) {
            self.second += 1;
            self.second_opening += u64::from(self.kill_load(true)?);
        }
        dump(&self.campaign.program, &self.campaign.directory, &mut self.world)
    }

    /// Starts a process, kills it while it opens the store or some time after, and tells whether it had not opened yet.
    fn kill_load(&mut self, opening: bool) -> Result<bool> {
        let directory = self.campaign.directory.to_string_lossy();
        let seed = self.random.next().to_string();
        // Leases, accepts, everything survives the process also where nothing is synced.
        let durability = if self.random.percent(25) { "os" } else { "sync" };
        let arguments = ["load", &directory, "--seed", &seed, "--durability", durability];
        self.world.begin_run();
        let mut child = Running::start(&self.campaign.program, &arguments)?;
        let mut measured = false;
        let mut moment = opening.then(|| child.started + self.random.within(self.opening));
        loop {
            match child.next_until(moment.unwrap_or_else(|| uptime() + WORK_MAX * 600)) {
                Next::Line(line) => self.world.hear(&line)?,
                Next::Quiet if moment.is_some() => break,
                Next::Quiet => return Err(Fault::new("the process under test hangs")),
                Next::End => return Err(Fault::new("the process under test ended by itself: see above")),
            }
            if self.world.stage >= Stage::Open && !measured {
                measured = true;
                self.opening = uptime().saturating_sub(child.started);
            }
            if self.world.stage >= Stage::Listed && moment.is_none() {
                moment = Some(uptime() + self.random.within(WORK_MAX));
            }
            if moment.is_some_and(|moment| uptime() >= moment) {
                break;
            }
        }
        child.kill()?;
        while let Some(line) = child.next()? {
            self.world.hear(&line)?;
        }
        Ok(self.world.stage < Stage::Open)
    }

    fn closing(&self) -> String {
        let (world, cycles) = (&self.world, self.campaign.cycles);
        format!(
            "kill: {cycles} cycles, {} kills, {} of them while opening ({} of {} second kills); {}",
            cycles + self.second,
            self.killed_opening + self.second_opening,
            self.second_opening,
            self.second,
            world.tally.closing(world.fences.len())
        )
    }
}

/// Has a fresh process list everything and claim everything, and checks it.
pub(crate) fn dump(program: &Path, directory: &Path, world: &mut World) -> Result<()> {
    world.begin_run();
    let mut child = Running::start(program, &["dump", &directory.to_string_lossy()])?;
    while let Some(line) = child.next()? {
        world.hear(&line)?;
    }
    child.end()?;
    if world.stage == Stage::Drained { Ok(()) } else { Err(Fault::new("the listing ended before its end")) }
}
