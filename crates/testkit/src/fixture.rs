//! What every test gets: a fresh store, and control of its clock.

use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::{Clock, Rng, Store, Timestamp};

use crate::timed::{CASE_DEADLINE, with_deadline};

/// The result of a test case.
pub type TestResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A fresh, empty store and control of its time.
///
/// ```
/// use std::sync::Arc;
///
/// use oncebox_core::{Clock, Store};
/// use oncebox_testkit::{Fixture, ManualClock};
///
/// /// `new` opens the store under test.
/// fn open(new: impl Fn(Arc<dyn Clock>) -> Arc<dyn Store>) -> Fixture {
///     let clock = Arc::new(ManualClock::default());
///     Fixture { store: new(clock.clone()), time: clock }
/// }
/// ```
pub struct Fixture {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// Its time.
    pub time: Arc<dyn TestTime>,
}

/// Moves the time of a store under test, which otherwise stands still: cases depend on single milliseconds.
#[async_trait]
pub trait TestTime: Send + Sync {
    /// The store's time now.
    async fn now(&self) -> Timestamp;

    /// Moves the store's time forward.
    async fn advance(&self, by: Duration);
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicU64::new(start.as_millis()))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("tests move time by less than 500 million years");
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(1_767_225_600_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl TestTime for ManualClock {
    async fn now(&self) -> Timestamp {
        Clock::now(self)
    }

    async fn advance(&self, by: Duration) {
        Self::advance(self, by);
    }
}

/// A small seeded random number generator: the same seed gives the same run.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is greater than zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

impl Rng for SplitMix {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Runs one test case on its own runtime.
pub fn block_on<T>(case: impl Future<Output = T>) -> T {
    let mut answer = None;
    drive(pin!(async { answer = Some(case.await) }));
    answer.expect("a case that has ended has a result")
}

/// Not generic, so that the runtime is compiled once and not for each of several hundred cases.
fn drive(case: Pin<&mut dyn Future<Output = ()>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts anywhere").block_on(with_deadline(CASE_DEADLINE, case));
}
