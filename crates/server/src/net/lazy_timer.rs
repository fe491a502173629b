//! Timers for deadlines that rarely expire.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for a deadline that usually moves before it expires. It lets the underlying timer fire early rather than
/// resetting it each time: a reset takes a lock that all connections share.
#[derive(Default)]
pub(super) struct LazyTimer(Option<Pin<Box<Sleep>>>);

impl LazyTimer {
    pub(super) fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

/// Runs one future after another with a deadline each, on a single timer.
#[derive(Default)]
pub(crate) struct ReusableTimeout(Mutex<LazyTimer>);

impl ReusableTimeout {
    /// Returns the output of the future, or `None` if the deadline passes first.
    pub(crate) async fn run_until<T>(&self, deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // A panic cannot leave the timer in an invalid state.
            let mut timer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            timer.poll_until(cx, deadline).map(|()| None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::ReusableTimeout;

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_deadline() {
        let timeout = ReusableTimeout::default();
        for (wait, limit) in [(1, 30), (29, 30), (2, 90), (40, 60), (1, 2)] {
            let (start, wait) = (Instant::now(), Duration::from_secs(wait));
            let until = start + Duration::from_secs(limit);
            assert_eq!(timeout.run_until(until, sleep(wait)).await, Some(()));
            assert_eq!(start.elapsed(), wait);
        }
        for seconds in [5, 60, 3] {
            let start = Instant::now();
            let until = start + Duration::from_secs(seconds);
            assert_eq!(timeout.run_until(until, pending::<()>()).await, None);
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
    }
}
