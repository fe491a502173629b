//! `kill-server`: kills a server under load repeatedly, always on the same store, and checks its responses.

mod client;
mod drain;
mod http;
mod ledger;
mod process;
mod receive;
mod send;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use oncebox_audit::server::ServerHistory;
use oncebox_core::Rng;
use oncebox_testkit::SplitMix;

use crate::Failure;
use client::{Actor, TestClient, lock};
use process::Server;

/// Minimum and maximum time before a server is killed.
const WORK_MS: (u64, u64) = (300, 1_500);
/// Number of actors of each kind.
const SENDERS: u64 = 2;
const BATCHERS: u64 = 1;
const LEDGERS: u64 = 2;

/// The arguments of the campaign.
pub(crate) struct KillServerCampaign {
    pub(crate) program: PathBuf,
    /// The server's `--store` argument.
    pub(crate) store: String,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
}

/// Runs all rounds, drains the mailbox and returns a summary. Fails at the first violation.
pub(crate) fn run(campaign: &KillServerCampaign) -> Result<String, Failure> {
    let history = Mutex::new(ServerHistory::default());
    let mut random = SplitMix::new(campaign.seed);
    let mut actors = actors();
    let mut restart_longest = Duration::ZERO;
    for number in 1..=campaign.rounds {
        let server = Server::start(campaign)?;
        restart_longest = restart_longest.max(server.took);
        let work = Duration::from_millis(WORK_MS.0 + random.next_u64() % (WORK_MS.1 - WORK_MS.0));
        let round = Round { history: &history, seed: random.next_u64(), work };
        round.run(server, &mut actors).map_err(|failure| {
            format!(
                "round {number}, seed {}: {failure}\n  before that: {}",
                campaign.seed,
                lock(&history).tally()
            )
        })?;
    }
    let server = Server::start(campaign)?;
    let mut client = TestClient::new(&server.address, &history, campaign.seed)?;
    let drained = drain::run(&mut client).map_err(|failure| {
        format!("final drain, seed {}: {failure}\n  before that: {}", campaign.seed, lock(&history).tally())
    })?;
    server.kill()?;
    let (rounds, tally) = (campaign.rounds, lock(&history).tally());
    Ok(format!(
        "server: {rounds} kills, slowest restart {} ms; {tally}; final drain: {drained}",
        restart_longest.as_millis()
    ))
}

/// All actors. They outlive a killed server, and keep their deliveries and leases.
fn actors() -> Vec<Box<dyn Actor>> {
    let mut actors: Vec<Box<dyn Actor>> = Vec::new();
    for number in 0..SENDERS {
        actors.push(Box::new(send::Sender::single(number)));
    }
    for number in 0..BATCHERS {
        actors.push(Box::new(send::Sender::batches(SENDERS + number)));
    }
    for mode in [
        receive::ReceiveMode::Recv,
        receive::ReceiveMode::Recv,
        receive::ReceiveMode::Work,
        receive::ReceiveMode::Stream,
    ] {
        actors.push(Box::new(receive::Receiver::new(mode)));
    }
    for _ in 0..LEDGERS {
        actors.push(Box::new(ledger::LedgerUser::default()));
    }
    actors
}

/// One round: all actors call the server until it is killed.
struct Round<'a> {
    history: &'a Mutex<ServerHistory>,
    seed: u64,
    work: Duration,
}

impl Round<'_> {
    fn run(&self, server: Server, actors: &mut [Box<dyn Actor>]) -> Result<(), Failure> {
        let killing = AtomicBool::new(false);
        let address = server.address.clone();
        std::thread::scope(|scope| {
            let (early_end, ended) = mpsc::channel();
            let mut threads = Vec::new();
            for (number, actor) in (0..).zip(actors.iter_mut()) {
                let client = TestClient::new(&address, self.history, self.seed.wrapping_add(number))?;
                let (early_end, killing) = (early_end.clone(), &killing);
                threads.push(scope.spawn(move || {
                    let outcome = work(actor.as_mut(), client, killing);
                    // The receiver may be gone after the kill.
                    let _ = early_end.send(());
                    outcome
                }));
            }
            let _ = ended.recv_timeout(self.work);
            killing.store(true, Ordering::SeqCst);
            server.kill()?;
            let outcomes: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            for outcome in outcomes {
                outcome.map_err(|_| "an actor panicked: see above")??;
            }
            Ok(())
        })
    }
}

/// Runs an actor until the server is killed. A broken connection is a failure only before the kill.
fn work(actor: &mut dyn Actor, mut client: TestClient<'_>, killing: &AtomicBool) -> Result<(), Failure> {
    loop {
        if let Err(failure) = actor.step(&mut client) {
            let is_broken = failure.is::<std::io::Error>();
            if is_broken && killing.load(Ordering::SeqCst) {
                return Ok(());
            }
            return Err(if is_broken {
                format!("the connection broke before the kill: {failure}").into()
            } else {
                failure
            });
        }
        if killing.load(Ordering::SeqCst) {
            return Ok(());
        }
    }
}
