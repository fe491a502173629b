//! Deadlines for tests: one that waits for what never happens fails by its name, instead of hanging.
//!
//! A test asks for it in its attribute, and is otherwise what tokio makes of it:
//!
//! ```ignore
//! #[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
//! ```
//!
//! The deadline is two minutes by the clock on the wall, far more than any test takes. Where time is paused, there is another: a
//! day of the test's own time, which is over as soon as nothing but timers can happen.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Waker;
use std::time::Duration;

#[cfg(feature = "timed")]
pub use tokio::pin;

/// How long a test may take by the clock on the wall.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// The same for a case of the conformance suite or the random comparison, whatever store it runs on.
pub(crate) const CASE_DEADLINE: Duration = Duration::from_secs(900);
/// How long a test may take by its own time, where that is paused.
#[cfg(feature = "timed")]
pub const PAUSED_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// A test that does not even come to its next await for so long after its deadline ends the process.
const STUCK_AFTER: Duration = Duration::from_secs(60);

thread_local! {
    /// What the test of this thread waits for, the innermost last.
    static WAITS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Waits, and lets the deadline of the test say what for.
pub async fn within<F: Future>(what: &'static str, future: F) -> F::Output {
    let _waits = Waits::new(what);
    future.await
}

/// Waits until it holds, and lets everything else have its turn in between.
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
pub(crate) async fn ending<F: Future>(deadline: Duration, future: F) -> F::Output {
    let watch = Watch::start(deadline);
    let mut future = std::pin::pin!(future);
    poll_fn(|task| {
        watch.wake(task.waker());
        assert!(!watch.is_late(), "the test has not ended within {deadline:?}{}", waits());
        future.as_mut().poll(task)
    })
    .await
}

/// The same where time is paused.
#[cfg(feature = "timed")]
async fn ending_paused<F: Future>(future: F) -> F::Output {
    // Still there when it is late: dropped, it would not wait any more.
    let mut test = std::pin::pin!(ending(DEADLINE, future));
    let Ok(output) = tokio::time::timeout(PAUSED_DEADLINE, test.as_mut()).await else {
        panic!("the test has not ended within {PAUSED_DEADLINE:?} of its own, paused time{}", waits())
    };
    output
}

fn waits() -> String {
    let waits = WAITS.with_borrow(|waits| waits.join(", in which "));
    if waits.is_empty() { String::new() } else { format!(", and waits: {waits}") }
}

/// A thread that notices when a deadline has passed.
struct Watch {
    shared: Arc<Shared>,
    /// Dropped, it ends the thread.
    _ended: mpsc::Sender<()>,
}

#[derive(Default)]
struct Shared {
    late: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Watch {
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
                eprintln!("{name} is stuck: it has not come to an await since its deadline of {deadline:?}");
                std::process::abort();
            }
        });
        Self { shared, _ended: ended }
    }

    fn wake(&self, waker: &Waker) {
        let mut held = self.shared.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|held| !held.will_wake(waker)) {
            *held = Some(waker.clone());
        }
    }

    fn is_late(&self) -> bool {
        self.shared.late.load(Ordering::SeqCst)
    }
}

/// What the attribute of tokio expects of the crate that it is told to use.
#[cfg(feature = "timed")]
pub mod runtime {
    use std::io;

    /// Builds a runtime, as tokio's builder does.
    #[must_use]
    pub struct Builder {
        inner: tokio::runtime::Builder,
        paused: bool,
    }

    /// A runtime that ends what it runs at its deadline.
    pub struct Runtime {
        inner: tokio::runtime::Runtime,
        paused: bool,
    }

    impl Builder {
        /// On the thread of the test.
        pub fn new_current_thread() -> Self {
            Self { inner: tokio::runtime::Builder::new_current_thread(), paused: false }
        }

        /// On threads of its own.
        pub fn new_multi_thread() -> Self {
            Self { inner: tokio::runtime::Builder::new_multi_thread(), paused: false }
        }

        /// On so many.
        pub fn worker_threads(mut self, threads: usize) -> Self {
            self.inner.worker_threads(threads);
            self
        }

        /// Time stands still while something can happen, and jumps when nothing can.
        pub fn start_paused(mut self, paused: bool) -> Self {
            self.inner.start_paused(paused);
            self.paused = paused;
            self
        }

        /// With timers and sockets.
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
                self.inner.block_on(super::ending_paused(future))
            } else {
                self.inner.block_on(super::ending(super::DEADLINE, future))
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

    /// How a test that never ends fails.
    fn failure(test: impl Future<Output = ()>) -> String {
        let runtime = Builder::new_current_thread().start_paused(true).enable_all().build().unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| runtime.block_on(test))).unwrap_err();
        failed.downcast_ref::<String>().expect("a text").clone()
    }

    #[test]
    fn a_test_that_waits_for_ever_fails_and_says_what_for() {
        let text = failure(within("the bell rings", within("the rope is found", std::future::pending())));
        let expected = "the test has not ended within 86400s of its own, paused time, and waits: the bell rings, in which \
                        the rope is found";
        assert_eq!(text, expected);
        // The same while something goes on for ever.
        let text = failure(async {
            loop {
                within("tick", tokio::time::sleep(Duration::from_secs(60))).await;
            }
        });
        assert!(text.ends_with(", and waits: tick"), "{text}");
    }

    #[test]
    fn a_test_that_ends_is_left_alone() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        assert_eq!(runtime.block_on(within("nothing", async { 7 })), 7);
    }
}
