//! Deadlines for tests: a test that waits forever fails with its name and what it waits for, instead of hanging.
//!
//! A test opts in with its attribute, and otherwise behaves like any tokio test:
//!
//! ```ignore
//! #[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
//! ```
//!
//! The deadline is two minutes of wall-clock time, far more than any test takes. If time is paused, a second deadline
//! applies: a day of the test's own time, which passes as soon as only timers are left to wait for.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Waker;
use std::time::Duration;

#[cfg(feature = "timed")]
pub use tokio::pin;

/// The wall-clock deadline of a test.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// The wall-clock deadline of a case of the conformance suite or the random comparison, on any store.
pub(crate) const CASE_DEADLINE: Duration = Duration::from_secs(900);
/// The deadline of a test in its own time, if that is paused.
#[cfg(feature = "timed")]
pub const PAUSED_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// A test that does not reach its next await within this time after its deadline aborts the process.
const STUCK_AFTER: Duration = Duration::from_secs(60);

thread_local! {
    /// What the test on this thread waits for, the innermost last.
    static WAITS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Awaits `future`; if the test misses its deadline meanwhile, the failure shows `what`.
pub async fn within<F: Future>(what: &'static str, future: F) -> F::Output {
    let _waits = Waits::new(what);
    future.await
}

/// Polls `holds` until it is true, yielding to other tasks in between.
pub async fn until(what: &'static str, mut holds: impl AsyncFnMut() -> bool) {
    let _waits = Waits::new(what);
    while !holds().await {
        tokio::task::yield_now().await;
    }
}

struct Waits;

impl Waits {
    fn new(what: &'static str) -> Self {
        WAITS.with_borrow_mut(|waits| waits.push(what));
        Self
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITS.with_borrow_mut(Vec::pop);
    }
}

/// Runs a test to its end, or fails it at this deadline.
pub(crate) async fn with_deadline<F: Future>(deadline: Duration, future: F) -> F::Output {
    let watchdog = Watchdog::start(deadline);
    let mut future = std::pin::pin!(future);
    poll_fn(|task| {
        watchdog.wake(task.waker());
        assert!(!watchdog.is_late(), "the test did not end within {deadline:?}{}", waits());
        future.as_mut().poll(task)
    })
    .await
}

/// The same with paused time.
#[cfg(feature = "timed")]
async fn with_paused_deadline<F: Future>(future: F) -> F::Output {
    // Kept alive when it is late: dropping it would remove the entries in `WAITS`.
    let mut test = std::pin::pin!(with_deadline(DEADLINE, future));
    let Ok(output) = tokio::time::timeout(PAUSED_DEADLINE, test.as_mut()).await else {
        panic!("the test did not end within {PAUSED_DEADLINE:?} of its own, paused time{}", waits())
    };
    output
}

fn waits() -> String {
    let waits = WAITS.with_borrow(|waits| waits.join(" > "));
    if waits.is_empty() { String::new() } else { format!("; waiting for: {waits}") }
}

/// A thread that notices when a deadline has passed.
struct Watchdog {
    shared: Arc<Shared>,
    /// Dropping it ends the thread.
    _ended: mpsc::Sender<()>,
}

#[derive(Default)]
struct Shared {
    late: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Watchdog {
    fn start(deadline: Duration) -> Self {
        let shared = Arc::new(Shared::default());
        let (ended, end) = mpsc::channel::<()>();
        let (watched, thread) = (shared.clone(), std::thread::current());
        std::thread::spawn(move || {
            if end.recv_timeout(deadline) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            watched.late.store(true, Ordering::SeqCst);
            if let Some(waker) = watched.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
                waker.wake();
            }
            if end.recv_timeout(STUCK_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                let name = thread.name().unwrap_or("a test");
                eprintln!("{name} is stuck: no await was reached since its deadline of {deadline:?}");
                std::process::abort();
            }
        });
        Self { shared, _ended: ended }
    }

    fn wake(&self, waker: &Waker) {
        let mut stored = self.shared.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.as_ref().is_none_or(|stored| !stored.will_wake(waker)) {
            *stored = Some(waker.clone());
        }
    }

    fn is_late(&self) -> bool {
        self.shared.late.load(Ordering::SeqCst)
    }
}

/// The parts of tokio that `#[tokio::test(crate = …)]` expects in the given crate.
#[cfg(feature = "timed")]
pub mod runtime {
    use std::io;

    /// Builds a runtime, as tokio's builder does.
    #[must_use]
    pub struct Builder {
        inner: tokio::runtime::Builder,
        paused: bool,
    }

    /// A runtime that enforces the deadline of what it runs.
    pub struct Runtime {
        inner: tokio::runtime::Runtime,
        paused: bool,
    }

    impl Builder {
        /// A runtime on the thread of the test.
        pub fn new_current_thread() -> Self {
            Self { inner: tokio::runtime::Builder::new_current_thread(), paused: false }
        }

        /// A runtime on threads of its own.
        pub fn new_multi_thread() -> Self {
            Self { inner: tokio::runtime::Builder::new_multi_thread(), paused: false }
        }

        /// The number of those threads.
        pub fn worker_threads(mut self, threads: usize) -> Self {
            self.inner.worker_threads(threads);
            self
        }

        /// Pauses time: it stands still while a task can run, and jumps to the next timer otherwise.
        pub fn start_paused(mut self, paused: bool) -> Self {
            self.inner.start_paused(paused);
            self.paused = paused;
            self
        }

        /// Enables timers and sockets.
        pub fn enable_all(mut self) -> Self {
            self.inner.enable_all();
            self
        }

        /// Builds it.
        pub fn build(mut self) -> io::Result<Runtime> {
            Ok(Runtime { inner: self.inner.build()?, paused: self.paused })
        }
    }

    impl Runtime {
        /// Runs a test to its end, or fails it at its deadline.
        pub fn block_on<F: Future>(&self, future: F) -> F::Output {
            if self.paused {
                self.inner.block_on(super::with_paused_deadline(future))
            } else {
                self.inner.block_on(super::with_deadline(super::DEADLINE, future))
            }
        }
    }
}

#[cfg(test)]
#[cfg(feature = "timed")]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::runtime::Builder;
    use super::within;

    /// The failure of a test that never ends.
    fn failure(test: impl Future<Output = ()>) -> String {
        let runtime = Builder::new_current_thread().start_paused(true).enable_all().build().unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| runtime.block_on(test))).unwrap_err();
        failed.downcast_ref::<String>().expect("a text").clone()
    }

    #[test]
    fn a_test_that_waits_forever_fails_with_what_it_waits_for() {
        let text = failure(within("the reply", within("the connection", std::future::pending())));
        let expected = "the test did not end within 86400s of its own, paused time; waiting for: the reply > the connection";
        assert_eq!(text, expected);
        // The same for a test that never stops doing something.
        let text = failure(async {
            loop {
                within("tick", tokio::time::sleep(Duration::from_secs(60))).await;
            }
        });
        assert!(text.ends_with("; waiting for: tick"), "{text}");
    }

    #[test]
    fn a_test_that_ends_passes() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        assert_eq!(runtime.block_on(within("nothing", async { 7 })), 7);
    }
}
