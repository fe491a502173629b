//! Who reads the paused topics. A read is a task of its own, so that no caller depends on another one being polled, and
//! calls share it, so that a slow store is asked once.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::{Error, ErrorKind, Namespace};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, timeout};

use super::Pauses;

/// Time limit for reading.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a task that reads reports that it is driven.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// A task that has not reported for this long is on a runtime that nobody drives, and another one may read.
const DEAD_AFTER: Duration = Duration::from_secs(1);

/// The reads of one namespace.
#[derive(Default)]
pub(super) struct Reads {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// The number of reads that were started.
    started: u64,
    in_flight: Option<InFlight>,
    /// The number of reads that failed, and the error of the last one.
    failures: u64,
    error: Option<Error>,
}

struct InFlight {
    number: u64,
    reported_at: Instant,
}

impl Reads {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock panics halfway, so poisoned data is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a read ends after this call.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    pub(super) fn failures(&self) -> u64 {
        self.lock().failures
    }

    /// The error of the last read that failed, if it is not among the first `failures`.
    pub(super) fn failure_after(&self, failures: u64) -> Option<Error> {
        let state = self.lock();
        state.error.clone().filter(|_| state.failures > failures)
    }

    /// Starts a task that reads, unless there is one. Returns until when it counts as driven.
    pub(super) fn start(&self, pauses: Weak<Pauses>, namespace: Namespace) -> Instant {
        let (number, now) = {
            let mut state = self.lock();
            let now = Instant::now();
            if let Some(read) = &state.in_flight
                && now < read.reported_at + DEAD_AFTER
            {
                return read.reported_at + DEAD_AFTER;
            }
            state.started += 1;
            let number = state.started;
            state.in_flight = Some(InFlight { number, reported_at: now });
            (number, now)
        };
        tokio::spawn(Read { pauses, namespace, number }.run());
        now + DEAD_AFTER
    }

    fn report(&self, number: u64) {
        if let Some(read) = self.lock().in_flight.as_mut().filter(|read| read.number == number) {
            read.reported_at = Instant::now();
        }
    }

    /// Ends a read. If another one has replaced it, only its success counts.
    fn end(&self, number: u64, error: Option<Error>) {
        {
            let mut state = self.lock();
            if state.in_flight.take_if(|read| read.number == number).is_some() && error.is_some() {
                state.failures += 1;
                state.error = error;
            }
        }
        self.ended.notify_waiters();
    }
}

/// A task that reads. It ends its read also when it panics or is dropped with its runtime.
struct Read {
    /// Weak until it runs, so that a runtime that nobody drives does not keep the store open.
    pauses: Weak<Pauses>,
    namespace: Namespace,
    number: u64,
}

impl Read {
    async fn run(self) {
        let Some(pauses) = self.pauses.upgrade() else { return };
        let Some(of) = pauses.of(self.namespace) else { return };
        let mut read = pin!(timeout(READ_TIMEOUT, pauses.read(of)));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut read => break result,
                () = sleep(REPORT_INTERVAL) => of.reads.report(self.number),
            }
        };
        of.reads.end(self.number, result.unwrap_or_else(|_| Err(unanswered())).err());
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        let Some(pauses) = self.pauses.upgrade() else { return };
        let Some(of) = pauses.of(self.namespace) else { return };
        // If its runtime shuts down, a caller on another one reads.
        let panicked = std::thread::panicking();
        let error = || Error::new(ErrorKind::Unavailable, "reading the paused topics panicked: see the log");
        of.reads.end(self.number, panicked.then(error));
    }
}

pub(super) fn unanswered() -> Error {
    let text = format!("the store did not say within {READ_TIMEOUT:?} which topics are paused");
    Error::new(ErrorKind::Unavailable, text)
}
