//! `kill-handlers`: handlers are killed in their transactions; their writes and the inbox must never disagree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::{Postgres, psql};

use super::handle::HandlerMode;
use super::kill_workers::Progress;
use super::processes::Processes;
use super::{Scratch, inspect, store_handle};
use crate::Failure;
use crate::clock::{now, pause};

/// The application's tables: a row per order and a row per booked payment.
const TABLES: &str = "\
create table orders (id text primary key);
create table payments (uid uuid primary key, id text not null);";

/// Counted in one snapshot: done and not booked, booked and not done, booked twice, orders without a message and
/// messages without an order.
const INCONSISTENCIES: &str = "\
select (select count(*) from oncebox.message m where m.state = 2 and not exists (select from payments p where p.uid = m.uid)),
       (select count(*) from payments p where not exists (select from oncebox.message m where m.uid = p.uid and m.state = 2)),
       (select count(*) - count(distinct id) from payments),
       (select count(*) from orders o full join oncebox.message m on m.id = o.id where o.id is null or m.id is null)";
const CONSISTENT: &str = "0|0|0|0";

/// A process is killed after a random time of at most this.
const WORK_MS_MAX: u64 = 350;
/// A process that has not started after this never will.
const START_MS_MAX: u64 = 60_000;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of backends that are terminated in some rounds.
const TERMINATED: u64 = 2;

/// The arguments of the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillHandlers {
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// Handlers write outside their transactions, which the campaign must detect.
    pub(crate) write_outside: bool,
}

/// Counters for the summary.
#[derive(Default)]
struct Tally {
    comparisons: u64,
    /// Writes that a kill rolled back, and the number of such kills.
    undone: u64,
    interrupted: u64,
    terminated: u64,
}

impl Tally {
    fn add(&mut self, undone: u64) {
        self.undone += undone;
        self.interrupted += u64::from(undone > 0);
    }
}

/// Runs the campaign and returns a summary. Fails at the first inconsistency.
pub(crate) fn run(campaign: &KillHandlers) -> Result<String, Failure> {
    let scratch = Scratch::make("kill-handlers")?;
    let outcome = attempt(campaign, &scratch);
    scratch.close(outcome.map_err(|failure| format!("seed {}: {failure}", campaign.seed).into()))
}

fn attempt(campaign: &KillHandlers, scratch: &Scratch) -> Result<String, Failure> {
    let server = Postgres::start()?;
    let (url, mut rng, mut tally) = (server.url(), SplitMix::new(campaign.seed), Tally::default());
    store_handle::create_schema(&url)?;
    server.psql(TABLES)?;
    Processes::publish_url(scratch.path(), &url)?;
    for round in 1..=campaign.rounds {
        let log = scratch.path().join(format!("log-{round}"));
        let mode = if campaign.write_outside { HandlerMode::WriteOutside } else { HandlerMode::Send };
        let process = HandlerProcess::start(&log, rng.next_u64(), mode)?;
        self::round(process, &url, &mut rng, &mut tally)
            .and_then(|()| count_undone(&url, &log))
            .map(|undone| tally.add(undone))
            .map_err(|failure| format!("round {round}: {failure}"))?;
    }
    let log = scratch.path().join("log-last");
    let mut last = HandlerProcess::start(&log, rng.next_u64(), HandlerMode::Handle)?;
    let mut progress = Progress::new(0);
    while !progress.is_idle() {
        last.check()?;
        progress.update(&url)?;
        pause(POLL_INTERVAL * 10);
    }
    compare_tables(&url, &mut tally)?;
    count_undone(&url, &log)?;
    let totals = psql(
        &url,
        "select count(*) filter (where state = 2), count(*) filter (where state = 3) from oncebox.message",
    )?;
    let (done, dead) = totals.split_once('|').unwrap_or_default();
    let Tally { comparisons, undone, interrupted, terminated } = tally;
    Ok(format!(
        "kill-handlers: {} kills, {interrupted} of them between a write and its ack ({undone} writes rolled back), {terminated} \
         backends terminated; {comparisons} comparisons; finally {done} booked and done, {dead} dead and not booked",
        campaign.rounds
    ))
}

/// Lets a process work, kills it, and compares the tables afterwards; sometimes also before.
fn round(
    mut process: HandlerProcess,
    url: &str,
    rng: &mut SplitMix,
    tally: &mut Tally,
) -> Result<(), Failure> {
    pause(Duration::from_millis(rng.below(WORK_MS_MAX)));
    match rng.below(8) {
        0..2 => compare_tables(url, tally)?,
        2 => tally.terminated += inspect::terminate_backends(url, TERMINATED, true)?,
        _ => {}
    }
    process.check()?;
    drop(process);
    compare_tables(url, tally)
}

/// Compares the handlers' writes with the inbox.
fn compare_tables(url: &str, tally: &mut Tally) -> Result<(), Failure> {
    tally.comparisons += 1;
    let found = psql(url, INCONSISTENCIES)?;
    if found == CONSISTENT {
        return Ok(());
    }
    Err(format!(
        "done and not booked | booked and not done | booked twice | orders and messages without each other: {found}"
    )
    .into())
}

/// Reads the log of a process and counts its writes that were rolled back. Fails if a handler found its payment already
/// booked.
fn count_undone(url: &str, log: &Path) -> Result<u64, Failure> {
    let text = fs::read_to_string(log)?;
    let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut wrote = Vec::new();
    for line in text.lines().map(fields) {
        match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, "duplicate", uid] => {
                return Err(format!("{uid} was delivered although it is already booked").into());
            }
            // A kill can truncate the last line.
            [_, "wrote", uid] if uid.len() == 36 => wrote.push(uid.to_owned()),
            _ => {}
        }
    }
    // A commit that was sent before the kill may still complete: count what is there now.
    let committed =
        psql(url, &format!("select count(*) from payments where uid = any('{{{}}}')", wrote.join(",")))?;
    wrote.sort();
    wrote.dedup();
    Ok((wrote.len() as u64).saturating_sub(committed.parse()?))
}

/// A process with handlers; dropping it kills it.
struct HandlerProcess(Child);

impl HandlerProcess {
    /// Starts a process and waits until its worker runs.
    fn start(log: &Path, seed: u64, mode: HandlerMode) -> Result<Self, Failure> {
        let url_file: PathBuf = Processes::url_file(log.parent().unwrap_or(log));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("pg-handle").arg(url_file).arg(log).arg(seed.to_string()).args(match mode {
            HandlerMode::Handle => None,
            HandlerMode::Send => Some("--send"),
            HandlerMode::WriteOutside => Some("--write-outside"),
        });
        let mut process = Self(command.stdin(Stdio::piped()).spawn()?);
        let until = now() + START_MS_MAX;
        while !fs::read_to_string(log).is_ok_and(|text| text.contains("open\n")) {
            process.check()?;
            if now() > until {
                return Err("a process with handlers did not start in time".into());
            }
            pause(POLL_INTERVAL);
        }
        Ok(process)
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self.0.try_wait()? {
            Some(status) => Err(format!("a process exited on its own ({status}): see above").into()),
            None => Ok(()),
        }
    }
}

impl Drop for HandlerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
