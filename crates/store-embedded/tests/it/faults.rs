//! The disk fails at its N-th call, for every N: no panic, no confirmed write that is not on disk, no loss, and clear
//! errors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use oncebox_core::Store;
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, block_on};

use crate::disk::SimDisk;
use crate::failing_disk::{Call, FailingDisk, Fault, FaultKind};
use crate::oracle::{Oracle, Outcome, check_error};
use crate::{open_on, options};

/// Concurrent runs: some wait for the store to retry a full disk.
const WORKERS: usize = 6;
/// How long messages may be rejected after the disk has space again.
const LIMIT: Duration = Duration::from_secs(60);

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records panics of the store's own threads, which no caller would notice.
fn record_thread_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
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
    oracle: Oracle,
    /// Whether messages were rejected for lack of space.
    rejected: bool,
}

/// The results of many runs.
#[derive(Debug, Default)]
struct Tally {
    /// Runs in which the fault was triggered.
    triggered: usize,
    /// Runs in which messages were rejected for lack of space, and accepted again later.
    rejected: usize,
}

/// Prints the fault when a run fails.
impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run with {:?} failed", self.fault);
        }
    }
}

impl Run {
    fn new(fault: Option<Fault>) -> Self {
        record_thread_panics();
        Self {
            fault,
            disk: fault.map_or_else(FailingDisk::default, FailingDisk::new),
            clock: Arc::new(ManualClock::default()),
            oracle: Oracle::default(),
            rejected: false,
        }
    }

    fn open(&self) -> Option<EmbeddedStore> {
        let opened = EmbeddedStore::open_on(Arc::new(self.disk.clone()), &options(&self.clock));
        opened.inspect_err(check_error).ok()
    }

    /// Opens, works and closes up to four times, until the store fails. Returns the failed store, if it is still open.
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

    /// Works on an open store. Returns whether it still works.
    fn session(&mut self, store: &EmbeddedStore) -> bool {
        let mut rejected = false;
        for step in 0..10 {
            let failed = self.disk.journal_failed();
            let outcome = match step % 5 {
                0 | 2 => self.oracle.accept(store, 10),
                3 => self.oracle.operate(store),
                _ => self.oracle.work(store),
            };
            assert!(
                !failed || outcome != Outcome::Confirmed,
                "a write was confirmed after the journal failed"
            );
            match outcome {
                Outcome::Unknown => return false,
                Outcome::Rejected => {
                    assert!(matches!(step % 5, 0 | 2), "work and orders continue in the reserve");
                    rejected = true;
                }
                Outcome::Confirmed | Outcome::Idle => {}
            }
            self.clock.advance(Duration::from_millis(10));
        }
        self.rejected |= rejected;
        !rejected || self.recover(store)
    }

    /// After messages were rejected for lack of space: once the disk has space again, the same store accepts again.
    fn recover(&mut self, store: &EmbeddedStore) -> bool {
        self.disk.clear_fault();
        let started = uptime();
        // The disk is retried every second; until then every caller is rejected at once.
        while uptime().saturating_sub(started) < LIMIT {
            match self.oracle.accept(store, 10) {
                Outcome::Confirmed => return true,
                Outcome::Unknown => return false,
                Outcome::Rejected | Outcome::Idle => std::thread::park_timeout(Duration::from_millis(50)),
            }
        }
        panic!("nothing is accepted although there is space again");
    }

    /// Checks that all confirmed writes survive: after a kill, after a power cut, and when the same directory is
    /// reopened, used, and only then loses power.
    fn check(&mut self) -> bool {
        let store = self.drive();
        let (killed, cut) = (self.disk.after_kill(), self.disk.after_power_cut());
        drop(store);
        self.check_against(&killed);
        self.check_against(&cut);
        self.disk.clear_fault();
        let again = self.open().expect("without the fault the store opens");
        self.oracle.reconcile(&again);
        assert_eq!(self.oracle.accept(&again, 2), Outcome::Confirmed);
        let cut = self.disk.after_power_cut();
        drop(again);
        self.check_against(&cut);
        assert_eq!(*PANICS.lock().unwrap(), [""; 0]);
        self.disk.triggered()
    }

    fn check_against(&self, left: &SimDisk) {
        self.oracle.clone().reconcile(&open_on(left, &self.clock));
    }
}

/// Runs with the fault at the first call, the second, and so on until it is not triggered any more.
fn enumerate(calls: &'static [Call], kind: FaultKind, persistent: bool) -> Tally {
    let (next, ended, tally) = (AtomicUsize::new(1), AtomicBool::new(false), Mutex::<Tally>::default());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    let nth = next.fetch_add(1, Ordering::SeqCst);
                    let mut run = Run::new(Some(Fault { calls, nth, kind, persistent }));
                    let triggered = run.check();
                    ended.fetch_or(!triggered, Ordering::SeqCst);
                    let mut tally = tally.lock().unwrap();
                    tally.triggered += usize::from(triggered);
                    tally.rejected += usize::from(run.rejected);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

const EVERY_CALL: &[Call] = &[];
const NEEDS_SPACE: &[Call] = &[Call::Create, Call::SyncDirectory, Call::Grow, Call::Overwrite, Call::Sync];
const GROWS: &[Call] = &[Call::Create, Call::Grow];
const WRITES: &[Call] = &[Call::Grow, Call::Overwrite];

/// Coverage of the faults below: the workload starts, wipes and removes segments, and closes cleanly.
#[test]
fn the_workload_without_a_fault_makes_every_call() {
    let mut run = Run::new(None);
    assert!(run.drive().is_none(), "the store was closed each time");
    let counts = run.disk.counts();
    assert_eq!(counts.len(), 10, "{counts:?}");
    assert!(counts[&Call::Create] > 9, "{counts:?}");
    assert!(counts[&Call::Remove] > 3, "{counts:?}");
    assert!(!run.check());
}

#[test]
fn an_io_error_once() {
    let tally = enumerate(EVERY_CALL, FaultKind::Io, false);
    assert!(tally.triggered > 100, "{tally:?}");
}

#[test]
fn io_errors_from_then_on() {
    let tally = enumerate(EVERY_CALL, FaultKind::Io, true);
    assert!(tally.triggered > 100, "{tally:?}");
}

#[test]
fn no_space_once() {
    let tally = enumerate(NEEDS_SPACE, FaultKind::NoSpace, false);
    assert!(tally.triggered > 60, "{tally:?}");
}

#[test]
fn no_space_from_then_on() {
    let tally = enumerate(NEEDS_SPACE, FaultKind::NoSpace, true);
    assert!(tally.triggered > 60, "{tally:?}");
}

/// A full disk as on most file systems: files can neither be created nor grow, but existing bytes can be overwritten.
/// Settlements and orders continue in the reserve, and messages are accepted once there is space again.
#[test]
fn a_disk_that_is_full_from_then_on() {
    let tally = enumerate(GROWS, FaultKind::NoSpace, true);
    assert!(tally.triggered > 10 && tally.rejected > 5, "{tally:?}");
}

#[test]
fn a_short_write_once() {
    let tally = enumerate(WRITES, FaultKind::ShortWrite, false);
    assert!(tally.triggered > 40, "{tally:?}");
}

#[test]
fn short_writes_from_then_on() {
    let tally = enumerate(WRITES, FaultKind::ShortWrite, true);
    assert!(tally.triggered > 40, "{tally:?}");
}
