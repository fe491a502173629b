//! Timers for what mostly comes in time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for moments that mostly move on before they come. It rings early rather than being set anew each time: setting it
/// takes a lock that all connections share.
#[derive(Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    pub(super) fn poll_until(&mut self, cx: &mut Context<'_>, until: Instant) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() > until {
            timer.as_mut().reset(until);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}

/// Waits for one thing after another, with one alarm for all of them.
#[derive(Default)]
pub(crate) struct Patience(Mutex<Alarm>);

impl Patience {
    /// What comes, if it comes before this moment.
    pub(crate) async fn until<T>(&self, until: Instant, awaited: impl Future<Output = T>) -> Option<T> {
        let mut awaited = pin!(awaited);
        poll_fn(|cx| {
            if let Poll::Ready(came) = awaited.as_mut().poll(cx) {
                return Poll::Ready(Some(came));
            }
            // A timer is whole whatever happened while it was locked.
            let mut alarm = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            alarm.poll_until(cx, until).map(|()| None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::Patience;

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_end_whatever_the_one_before_was() {
        let patience = Patience::default();
        for (wait, limit) in [(1, 30), (29, 30), (2, 90), (40, 60), (1, 2)] {
            let (start, wait) = (Instant::now(), Duration::from_secs(wait));
            let until = start + Duration::from_secs(limit);
            assert_eq!(patience.until(until, sleep(wait)).await, Some(()));
            assert_eq!(start.elapsed(), wait);
        }
        for seconds in [5, 60, 3] {
            let start = Instant::now();
            let until = start + Duration::from_secs(seconds);
            assert_eq!(patience.until(until, pending::<()>()).await, None);
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
    }
}
