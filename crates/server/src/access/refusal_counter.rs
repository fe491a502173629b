//! Notices when many requests are refused within a short time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// More refusals than this within [`WINDOW`] are a spike.
const SPIKE: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct RefusalCounter(Mutex<Option<Window>>);

struct Window {
    began: Instant,
    refused: u32,
}

impl RefusalCounter {
    /// Counts a refusal; true once for each window with a spike.
    pub(super) fn is_spike(&self, now: Instant) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = window.take().filter(|window| now.duration_since(window.began) < WINDOW);
        let Window { began, refused } = current.unwrap_or(Window { began: now, refused: 0 });
        let refused = refused.saturating_add(1);
        *window = Some(Window { began, refused });
        refused == SPIKE
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_refusals_within_a_second_are_a_spike() {
        let counter = RefusalCounter::default();
        for second in 0..3 {
            let spikes: Vec<u32> = (1..=250).filter(|_| counter.is_spike(Instant::now())).collect();
            assert_eq!(spikes, [100], "second {second}");
            advance(WINDOW).await;
        }
        for _ in 0..250 {
            assert!(!counter.is_spike(Instant::now()));
            advance(WINDOW / 50).await;
        }
    }
}
