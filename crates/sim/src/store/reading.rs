//! When callers asked for what the store sees: a node reads the pauses before a call, and the read takes time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::time::StoreClock;

/// The reads of pauses by one node. Calls that waited for a read follow it at once.
#[derive(Default)]
pub(super) struct Reading {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_flight: usize,
    /// Since when the node has been reading without a break.
    since: u64,
    ended_at: Option<u64>,
}

/// A read in flight.
pub(super) struct ReadGuard<'a> {
    reading: &'a Reading,
    clock: &'a StoreClock,
}

impl Reading {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start<'a>(&'a self, clock: &'a StoreClock) -> ReadGuard<'a> {
        let now = clock.elapsed_ms();
        let mut state = self.lock();
        if state.in_flight == 0 && state.ended_at != Some(now) {
            state.since = now;
        }
        state.in_flight += 1;
        ReadGuard { reading: self, clock }
    }

    /// The earliest time at which the caller of a call that is made now may have asked for it.
    pub(super) fn asked_at(&self, now: u64) -> u64 {
        let state = self.lock();
        if state.ended_at == Some(now) { state.since } else { now }
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.reading.lock();
        state.in_flight -= 1;
        state.ended_at = Some(self.clock.elapsed_ms());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_was_asked_for_when_the_reads_before_it_began() {
        let (clock, reading) = (StoreClock::new(), Reading::default());
        advance(Duration::from_millis(10)).await;
        let first = reading.start(&clock);
        advance(Duration::from_millis(5)).await;
        assert_eq!(reading.asked_at(15), 15, "it did not wait for the read");
        drop(first);
        assert_eq!(reading.asked_at(15), 10);
        let second = reading.start(&clock);
        advance(Duration::from_millis(5)).await;
        drop(second);
        assert_eq!(reading.asked_at(20), 10, "one read followed the other at once");
        advance(Duration::from_millis(1)).await;
        assert_eq!(reading.asked_at(21), 21);
    }
}
