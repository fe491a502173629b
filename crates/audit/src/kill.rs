//! The kill campaign: SIGKILL under load, repeatedly on one directory, sometimes while the store is being opened.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::{ChildProcess, Next};
use crate::model::{Guarantee, Model, Stage};
use crate::random::{Random, uptime};
use crate::{Result, Violation};

/// A process is killed after a random time of at most this.
const WORK_MAX: Duration = Duration::from_millis(200);
/// Assumed duration of the first opening; later ones are measured.
const OPENING_FIRST: Duration = Duration::from_millis(20);

/// The arguments of the campaign.
#[derive(Debug, Clone)]
pub struct KillCampaign {
    /// The program of the process under test.
    pub program: PathBuf,
    /// The directory of the store. Must not exist; removed at the end, kept after a failure.
    pub directory: PathBuf,
    /// Number of processes that are killed under load.
    pub cycles: u64,
    /// Seed of the random choices.
    pub seed: u64,
}

/// A running campaign.
struct Run<'a> {
    campaign: &'a KillCampaign,
    random: Random,
    model: Model,
    /// Duration of the latest opening.
    opening: Duration,
    killed_opening: u64,
    second: u64,
    second_opening: u64,
}

/// Runs all cycles and returns a summary. Fails at the first violation.
pub fn run(campaign: &KillCampaign) -> std::result::Result<String, Violation> {
    let mut run = Run {
        campaign,
        random: Random::new(campaign.seed),
        model: Model::new(Guarantee::SurvivesProcess),
        opening: OPENING_FIRST,
        killed_opening: 0,
        second: 0,
        second_opening: 0,
    };
    for cycle in 1..=campaign.cycles {
        run.cycle().map_err(|violation| {
            let directory = campaign.directory.display();
            Violation::new(format!(
                "cycle {cycle}, seed {}: {violation}\nthe store is kept in {directory}",
                campaign.seed
            ))
        })?;
        if cycle % 50 == 0 {
            println!("kill: {cycle} cycles, {} calls answered", run.model.tally.calls);
        }
    }
    fs::remove_dir_all(&campaign.directory)
        .map_err(|error| Violation::new(format!("cannot remove the store directory: {error}")))?;
    Ok(run.summary())
}

impl Run<'_> {
    fn cycle(&mut self) -> Result<()> {
        let opening = self.random.percent(15);
        self.killed_opening += u64::from(self.kill_load(opening)?);
        if self.random.percent(50) {
            self.second += 1;
            self.second_opening += u64::from(self.kill_load(true)?);
        }
        dump(&self.campaign.program, &self.campaign.directory, &mut self.model)
    }

    /// Starts a process, and kills it while it opens the store or later. Returns whether the store was not open yet.
    fn kill_load(&mut self, opening: bool) -> Result<bool> {
        let directory = self.campaign.directory.to_string_lossy();
        let seed = self.random.next().to_string();
        // The death of a process loses nothing, even with a durability that syncs nothing.
        let durability = if self.random.percent(25) { "os" } else { "sync" };
        let arguments = ["load", &directory, "--seed", &seed, "--durability", durability];
        self.model.begin_run();
        let mut child = ChildProcess::start(&self.campaign.program, &arguments)?;
        let mut measured = false;
        let mut kill_at = opening.then(|| child.started + self.random.within(self.opening));
        loop {
            match child.next_until(kill_at.unwrap_or_else(|| uptime() + WORK_MAX * 600)) {
                Next::Line(line) => self.model.apply(&line)?,
                Next::Timeout if kill_at.is_some() => break,
                Next::Timeout => return Err(Violation::new("the process under test hangs")),
                Next::End => {
                    return Err(Violation::new("the process under test exited on its own: see above"));
                }
            }
            if self.model.stage >= Stage::Open && !measured {
                measured = true;
                self.opening = uptime().saturating_sub(child.started);
            }
            if self.model.stage >= Stage::Listed && kill_at.is_none() {
                kill_at = Some(uptime() + self.random.within(WORK_MAX));
            }
            if kill_at.is_some_and(|kill_at| uptime() >= kill_at) {
                break;
            }
        }
        child.kill()?;
        while let Some(line) = child.next()? {
            self.model.apply(&line)?;
        }
        Ok(self.model.stage < Stage::Open)
    }

    fn summary(&self) -> String {
        let (model, cycles) = (&self.model, self.campaign.cycles);
        format!(
            "kill: {cycles} cycles, {} kills, {} of them while opening ({} of {} second kills); {}",
            cycles + self.second,
            self.killed_opening + self.second_opening,
            self.second_opening,
            self.second,
            model.tally.summary(model.fences.len())
        )
    }
}

/// Starts a new process that lists the store and claims everything, and checks its lines.
pub(crate) fn dump(program: &Path, directory: &Path, model: &mut Model) -> Result<()> {
    model.begin_run();
    let mut child = ChildProcess::start(program, &["dump", &directory.to_string_lossy()])?;
    while let Some(line) = child.next()? {
        model.apply(&line)?;
    }
    child.wait()?;
    if model.stage == Stage::Drained {
        Ok(())
    } else {
        Err(Violation::new("the process ended before it had listed and drained the store"))
    }
}
