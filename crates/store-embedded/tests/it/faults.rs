//! The disk fails at its N-th call, for every N: no panic, no answer that is not on disk, no loss, and clear errors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use oncebox_core::Store;
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, block_on};

use crate::disk::SimDisk;
use crate::failing::{Call, FailingDisk, Fault, Mishap};
use crate::ledger::{Course, Ledger, check_error};
use crate::{open_on, options};

/// Runs at the same time: some wait for the store to ask a full disk again.
const WORKERS: usize = 6;
/// How long intake may be refused after the disk has room again.
const LIMIT: Duration = Duration::from_secs(60);

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes panics of the store's own threads, which no caller may see.
fn watch_threads() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("oncebox-")) {
                PANICS.lock().unwrap().push(info.to_string());
            }
            before(info);
        }));
    });
}

/// One run with one fault.
struct Run {
    fault: Option<Fault>,
    disk: FailingDisk,
    clock: Arc<ManualClock>,
    ledger: Ledger,
    /// Intake was refused for want of room.
    refused: bool,
}

/// What many runs came to.
#[derive(Debug, Default)]
struct Tally {
    /// Runs that reached their fault.
    reached: usize,
    /// Runs in which intake was refused for want of room, and taken up again later.
    refused: usize,
}

/// Says which fault it was when a run fails.
impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run with {:?} failed", self.fault);
        }
    }
}

impl Run {
    fn new(fault: Option<Fault>) -> Self {
        watch_threads();
        Self {
            fault,
            disk: fault.map_or_else(FailingDisk::default, FailingDisk::new),
            clock: Arc::new(ManualClock::default()),
            ledger: Ledger::default(),
            refused: false,
        }
    }

    fn open(&self) -> Option<EmbeddedStore> {
        let opened = EmbeddedStore::open_on(Arc::new(self.disk.clone()), &options(&self.clock));
        opened.inspect_err(check_error).ok()
    }

    /// Opens, works and closes a few times, until the store fails. Answers with what is still open then.
    fn drive(&mut self) -> Option<EmbeddedStore> {
        for _ in 0..4 {
            let store = self.open()?;
            if !self.session(&store) {
                return Some(store);
            }
            if let Err(error) = block_on(store.close()) {
                check_error(&error);
                check_error(&block_on(store.close()).unwrap_err());
                return Some(store);
            }
        }
        None
    }

    /// Works on an open store. Answers whether it goes on working.
    fn session(&mut self, store: &EmbeddedStore) -> bool {
        let mut refused = false;
        for step in 0..10 {
            let failed = self.disk.journal_failed();
            let course = match step % 5 {
                0 | 2 => self.ledger.accept(store, 10),
                3 => self.ledger.operate(store),
                _ => self.ledger.work(store),
            };
            assert!(!failed || course != Course::Answered, "an answer after the journal failed");
            match course {
                Course::Unknown => return false,
                Course::Refused => {
                    assert!(matches!(step % 5, 0 | 2), "work and orders go on in the reserve");
                    refused = true;
                }
                Course::Answered | Course::Idle => {}
            }
            self.clock.advance(Duration::from_millis(10));
        }
        self.refused |= refused;
        !refused || self.recover(store)
    }

    /// Intake was refused for want of room: when the disk gives room again, the same store takes in again.
    fn recover(&mut self, store: &EmbeddedStore) -> bool {
        self.disk.lift();
        let began = uptime();
        // The disk is asked again every second; until then every caller is refused at once.
        while uptime().saturating_sub(began) < LIMIT {
            match self.ledger.accept(store, 10) {
                Course::Answered => return true,
                Course::Unknown => return false,
                Course::Refused | Course::Idle => std::thread::park_timeout(Duration::from_millis(50)),
            }
        }
        panic!("nothing is taken in although there is room again");
    }

    /// What is left holds everything that was answered: after the end of the process, after a power cut, and when the
    /// same directory is opened again, worked on, and only then loses its power.
    fn check(&mut self) -> bool {
        let store = self.drive();
        let (killed, cut) = (self.disk.after_kill(), self.disk.after_power_cut());
        drop(store);
        self.hold_against(&killed);
        self.hold_against(&cut);
        self.disk.lift();
        let again = self.open().expect("without the fault the store opens");
        self.ledger.settle_against(&again);
        assert_eq!(self.ledger.accept(&again, 2), Course::Answered);
        let cut = self.disk.after_power_cut();
        drop(again);
        self.hold_against(&cut);
        assert_eq!(*PANICS.lock().unwrap(), [""; 0]);
        self.disk.reached()
    }

    fn hold_against(&self, left: &SimDisk) {
        self.ledger.clone().settle_against(&open_on(left, &self.clock));
    }
}

/// Runs with the fault at the first call, the second, and so on until it is not reached any more.
fn enumerate(calls: &'static [Call], mishap: Mishap, lasting: bool) -> Tally {
    let (next, ended, tally) = (AtomicUsize::new(1), AtomicBool::new(false), Mutex::<Tally>::default());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    let nth = next.fetch_add(1, Ordering::SeqCst);
                    let mut run = Run::new(Some(Fault { calls, nth, mishap, lasting }));
                    let reached = run.check();
                    ended.fetch_or(!reached, Ordering::SeqCst);
                    let mut tally = tally.lock().unwrap();
                    tally.reached += usize::from(reached);
                    tally.refused += usize::from(run.refused);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

const EVERY_CALL: &[Call] = &[];
const NEEDS_ROOM: &[Call] = &[Call::Create, Call::SyncNames, Call::Grow, Call::Overwrite, Call::Sync];
const GROWS: &[Call] = &[Call::Create, Call::Grow];
const WRITES: &[Call] = &[Call::Grow, Call::Overwrite];

/// What the faults below are worth: the work that they hit begins, wipes and removes segments, and closes cleanly.
#[test]
fn the_work_without_a_fault_meets_every_call() {
    let mut run = Run::new(None);
    assert!(run.drive().is_none(), "the last opening was closed");
    let counts = run.disk.counts();
    assert_eq!(counts.len(), 10, "{counts:?}");
    assert!(counts[&Call::Create] > 9, "{counts:?}");
    assert!(counts[&Call::Remove] > 3, "{counts:?}");
    assert!(!run.check());
}

#[test]
fn an_input_or_output_error_once() {
    let tally = enumerate(EVERY_CALL, Mishap::Io, false);
    assert!(tally.reached > 100, "{tally:?}");
}

#[test]
fn input_and_output_errors_from_then_on() {
    let tally = enumerate(EVERY_CALL, Mishap::Io, true);
    assert!(tally.reached > 100, "{tally:?}");
}

#[test]
fn no_space_once() {
    let tally = enumerate(NEEDS_ROOM, Mishap::NoSpace, false);
    assert!(tally.reached > 60, "{tally:?}");
}

#[test]
fn no_space_from_then_on() {
    let tally = enumerate(NEEDS_ROOM, Mishap::NoSpace, true);
    assert!(tally.reached > 60, "{tally:?}");
}

/// A full disk as most file systems mean it: files cannot be made or grow, but what is there can be written. Settlements and
/// orders go on in the reserve, and intake does when there is room again.
#[test]
fn a_disk_that_is_full_from_then_on() {
    let tally = enumerate(GROWS, Mishap::NoSpace, true);
    assert!(tally.reached > 10 && tally.refused > 5, "{tally:?}");
}

#[test]
fn a_short_write_once() {
    let tally = enumerate(WRITES, Mishap::ShortWrite, false);
    assert!(tally.reached > 40, "{tally:?}");
}

#[test]
fn short_writes_from_then_on() {
    let tally = enumerate(WRITES, Mishap::ShortWrite, true);
    assert!(tally.reached > 40, "{tally:?}");
}
