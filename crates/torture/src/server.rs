//! `server`: a server under load that is killed again and again on one directory, and judged by its answers.

mod desk;
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

use oncebox_audit::server::Book;
use oncebox_core::Rng;
use oncebox_testkit::SplitMix;

use crate::Failure;
use desk::{Desk, Role, locked};
use process::Server;

/// A server works for so long before it is killed, at least and at most.
const WORK_MS: (u64, u64) = (300, 1_500);
/// Callers of each kind.
const SENDERS: u64 = 2;
const BATCHERS: u64 = 1;
const LEDGERS: u64 = 2;

/// What to run, where, and how often.
pub(crate) struct Campaign {
    pub(crate) program: PathBuf,
    /// The server's store, as its setting spells it.
    pub(crate) store: String,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
}

/// Runs all rounds and drains what is left; the answer tells what was seen. The first broken promise ends it.
pub(crate) fn run(campaign: &Campaign) -> Result<String, Failure> {
    let book = Mutex::new(Book::default());
    let mut random = SplitMix::new(campaign.seed);
    let mut roles = cast();
    let mut restart_longest = Duration::ZERO;
    for round in 1..=campaign.rounds {
        let server = Server::start(campaign)?;
        restart_longest = restart_longest.max(server.took);
        let work = Duration::from_millis(WORK_MS.0 + random.next_u64() % (WORK_MS.1 - WORK_MS.0));
        let shift = Shift { book: &book, seed: random.next_u64(), work };
        shift.run(server, &mut roles).map_err(|failure| {
            format!(
                "round {round}, seed {}: {failure}\n  until then: {}",
                campaign.seed,
                locked(&book).tally()
            )
        })?;
    }
    let server = Server::start(campaign)?;
    let mut desk = Desk::new(&server.address, &book, campaign.seed)?;
    let rest = drain::run(&mut desk).map_err(|failure| {
        format!("at the end, seed {}: {failure}\n  until then: {}", campaign.seed, locked(&book).tally())
    })?;
    server.kill()?;
    let (rounds, tally) = (campaign.rounds, locked(&book).tally());
    Ok(format!(
        "server: {rounds} kills, slowest restart {} ms; {tally}; at the end {rest}",
        restart_longest.as_millis()
    ))
}

/// Everybody who calls. They live longer than a server, with what they hold.
fn cast() -> Vec<Box<dyn Role>> {
    let mut roles: Vec<Box<dyn Role>> = Vec::new();
    for number in 0..SENDERS {
        roles.push(Box::new(send::Sender::single(number)));
    }
    for number in 0..BATCHERS {
        roles.push(Box::new(send::Sender::batches(SENDERS + number)));
    }
    for way in [receive::Way::Recv, receive::Way::Recv, receive::Way::Work, receive::Way::Stream] {
        roles.push(Box::new(receive::Receiver::new(way)));
    }
    for _ in 0..LEDGERS {
        roles.push(Box::new(ledger::Holder::default()));
    }
    roles
}

/// One round: everybody works until the server is killed.
struct Shift<'a> {
    book: &'a Mutex<Book>,
    seed: u64,
    work: Duration,
}

impl Shift<'_> {
    fn run(&self, server: Server, roles: &mut [Box<dyn Role>]) -> Result<(), Failure> {
        let killing = AtomicBool::new(false);
        let address = server.address.clone();
        std::thread::scope(|scope| {
            let (early, ended) = mpsc::channel();
            let mut threads = Vec::new();
            for (number, role) in (0..).zip(roles.iter_mut()) {
                let desk = Desk::new(&address, self.book, self.seed.wrapping_add(number))?;
                let (early, killing) = (early.clone(), &killing);
                threads.push(scope.spawn(move || {
                    let outcome = work(role.as_mut(), desk, killing);
                    // Nobody listens any more if it is too late.
                    let _ = early.send(());
                    outcome
                }));
            }
            let _ = ended.recv_timeout(self.work);
            killing.store(true, Ordering::SeqCst);
            server.kill()?;
            let outcomes: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            for outcome in outcomes {
                outcome.map_err(|_| "a caller panicked: see above")??;
            }
            Ok(())
        })
    }
}

/// Works until the server is gone. That a call breaks off is right once it is being killed, and wrong before.
fn work(role: &mut dyn Role, mut desk: Desk<'_>, killing: &AtomicBool) -> Result<(), Failure> {
    loop {
        if let Err(failure) = role.step(&mut desk) {
            let is_broken = failure.is::<std::io::Error>();
            if is_broken && killing.load(Ordering::SeqCst) {
                return Ok(());
            }
            return Err(if is_broken {
                format!("a call broke off before the kill: {failure}").into()
            } else {
                failure
            });
        }
        if killing.load(Ordering::SeqCst) {
            return Ok(());
        }
    }
}
