//! `kill-handlers`: handlers in transactions are killed; what they wrote and what the inbox says must never disagree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::{Postgres, psql};

use super::crew::Crew;
use super::handle::Way;
use super::kill_workers::Progress;
use super::{Scratch, door, look};
use crate::Failure;
use crate::clock::{now, pause};

/// What the application has: a row per order that came, and one per payment that was booked.
const TABLES: &str = "\
create table orders (id text primary key);
create table payments (uid uuid primary key, id text not null);";

/// In one snapshot: done and not booked, booked and not done, booked twice, ordered without a message or the other way round.
const DISAGREEMENTS: &str = "\
select (select count(*) from oncebox.message m where m.state = 2 and not exists (select from payments p where p.uid = m.uid)),
       (select count(*) from payments p where not exists (select from oncebox.message m where m.uid = p.uid and m.state = 2)),
       (select count(*) - count(distinct id) from payments),
       (select count(*) from orders o full join oncebox.message m on m.id = o.id where o.id is null or m.id is null)";
const NONE: &str = "0|0|0|0";

/// A process works for so long before it is killed, at most.
const WORK_MS_MAX: u64 = 350;
/// It is there after so long, or never.
const START_MS_MAX: u64 = 60_000;
const LOOK: Duration = Duration::from_millis(5);
/// Backends that are cut off in some rounds.
const CUT: u64 = 2;

/// How often, and from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillHandlers {
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// Handlers write beside their transactions, which must be noticed.
    pub(crate) strays: bool,
}

/// What was seen.
#[derive(Default)]
struct Tally {
    looks: u64,
    /// Writes that a kill took back, and kills that did so.
    undone: u64,
    between: u64,
    cut: u64,
}

impl Tally {
    fn add(&mut self, undone: u64) {
        self.undone += undone;
        self.between += u64::from(undone > 0);
    }
}

/// Runs it; the answer tells what was seen. The first disagreement is the failure.
pub(crate) fn run(campaign: &KillHandlers) -> Result<String, Failure> {
    let scratch = Scratch::make("kill-handlers")?;
    let outcome = attempt(campaign, &scratch);
    scratch.close(outcome.map_err(|failure| format!("seed {}: {failure}", campaign.seed).into()))
}

fn attempt(campaign: &KillHandlers, scratch: &Scratch) -> Result<String, Failure> {
    let server = Postgres::start()?;
    let (url, mut rng, mut tally) = (server.url(), SplitMix::new(campaign.seed), Tally::default());
    door::prepare(&url)?;
    server.psql(TABLES)?;
    Crew::point(scratch.path(), &url)?;
    for round in 1..=campaign.rounds {
        let log = scratch.path().join(format!("log-{round}"));
        let way = if campaign.strays { Way::Strays } else { Way::Sends };
        let handling = Handling::start(&log, rng.next_u64(), way)?;
        self::round(handling, &url, &mut rng, &mut tally)
            .and_then(|()| fate(&url, &log))
            .map(|undone| tally.add(undone))
            .map_err(|failure| format!("round {round}: {failure}"))?;
    }
    let log = scratch.path().join("log-last");
    let mut last = Handling::start(&log, rng.next_u64(), Way::Handles)?;
    let mut progress = Progress::new(0);
    while !progress.is_idle() {
        last.check()?;
        progress.look(&url)?;
        pause(LOOK * 10);
    }
    agree(&url, &mut tally)?;
    fate(&url, &log)?;
    let totals = psql(
        &url,
        "select count(*) filter (where state = 2), count(*) filter (where state = 3) from oncebox.message",
    )?;
    let (done, dead) = totals.split_once('|').unwrap_or_default();
    let Tally { looks, undone, between, cut } = tally;
    Ok(format!(
        "kill-handlers: {} kills, {between} of them between a write and its ack ({undone} writes undone), {cut} backends cut off; \
         {looks} comparisons; in the end {done} booked and done, {dead} dead and not booked",
        campaign.rounds
    ))
}

/// A process works until it is killed; before and after, the tables are compared.
fn round(mut handling: Handling, url: &str, rng: &mut SplitMix, tally: &mut Tally) -> Result<(), Failure> {
    pause(Duration::from_millis(rng.below(WORK_MS_MAX)));
    match rng.below(8) {
        0..2 => agree(url, tally)?,
        2 => tally.cut += look::terminate(url, CUT, true)?,
        _ => {}
    }
    handling.check()?;
    drop(handling);
    agree(url, tally)
}

/// Compares what the handlers wrote with what the inbox says.
fn agree(url: &str, tally: &mut Tally) -> Result<(), Failure> {
    tally.looks += 1;
    let found = psql(url, DISAGREEMENTS)?;
    if found == NONE {
        return Ok(());
    }
    Err(format!(
        "done and not booked | booked and not done | booked twice | orders and messages that differ: {found}"
    )
    .into())
}

/// Reads what a process wrote: how many of its writes are not there. Fails if it found a row that should not be.
fn fate(url: &str, log: &Path) -> Result<u64, Failure> {
    let text = fs::read_to_string(log)?;
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut wrote = Vec::new();
    for line in text.lines().map(words) {
        match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, "twice", uid] => return Err(format!("{uid} was handled, and is booked already").into()),
            // A line that a kill has torn has no whole uid.
            [_, "wrote", uid] if uid.len() == 36 => wrote.push(uid.to_owned()),
            _ => {}
        }
    }
    // Somebody whose commit was sent may have it done after the kill: only what is there now is counted.
    let there =
        psql(url, &format!("select count(*) from payments where uid = any('{{{}}}')", wrote.join(",")))?;
    wrote.sort();
    wrote.dedup();
    Ok((wrote.len() as u64).saturating_sub(there.parse()?))
}

/// A process with handlers; dropping it kills it.
struct Handling(Child);

impl Handling {
    /// Starts one and waits until it works.
    fn start(log: &Path, seed: u64, way: Way) -> Result<Self, Failure> {
        let urls: PathBuf = Crew::urls(log.parent().unwrap_or(log));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("pg-handle").arg(urls).arg(log).arg(seed.to_string()).args(match way {
            Way::Handles => None,
            Way::Sends => Some("--sends"),
            Way::Strays => Some("--strays"),
        });
        let mut handling = Self(command.stdin(Stdio::piped()).spawn()?);
        let until = now() + START_MS_MAX;
        while !fs::read_to_string(log).is_ok_and(|text| text.contains("open\n")) {
            handling.check()?;
            if now() > until {
                return Err("a process with handlers does not start".into());
            }
            pause(LOOK);
        }
        Ok(handling)
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self.0.try_wait()? {
            Some(status) => Err(format!("a process ended by itself ({status}): see above").into()),
            None => Ok(()),
        }
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
