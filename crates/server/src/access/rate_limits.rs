//! The caveat `rate`: how many messages per second a token is good for, on this server.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_capability::{Nonce, limits};
use tokio::time::Instant;

/// Maximum number of nonces with a rate that are in use at the same time. Holders cannot make nonces.
const NONCES_MAX: usize = 10_000;
const SECOND: Duration = Duration::from_secs(1);

/// For each nonce and each rate, when the messages so far would have been spread out. It may be ahead by a second.
///
/// A token counts for each of its rates, and shares them with all tokens of its nonce that have them. So what is
/// attenuated from a token can do no more together than the token.
#[derive(Default)]
pub(super) struct RateLimits(Mutex<HashMap<Nonce, Vec<(NonZeroU32, Instant)>>>);

/// Too many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RateExceeded {
    /// The token has to wait for this long.
    Token(Duration),
    /// Too many tokens have a rate, or one nonce has too many rates.
    Table,
}

impl RateLimits {
    /// Counts messages unless they are too many. More than a second's worth in one request are always too many.
    pub(super) fn count(
        &self,
        nonce: Nonce,
        rates: &[NonZeroU32],
        messages: u32,
        now: Instant,
    ) -> Result<(), RateExceeded> {
        let mut nonces = self.lock();
        let used = entry(&mut nonces, nonce, rates, now)?;
        let ahead = |(rate, until): &(NonZeroU32, Instant)| later(*until, *rate, messages, now) - now;
        let most = used.iter().filter(|(rate, _)| rates.contains(rate)).map(ahead).max();
        if let Some(wait) = most.and_then(|most| most.checked_sub(SECOND)).filter(|wait| !wait.is_zero()) {
            return Err(RateExceeded::Token(wait));
        }
        add(used, rates, messages, now);
        Ok(())
    }

    /// Counts messages that nobody could know before. The next ones have to wait.
    pub(super) fn add(&self, nonce: Nonce, rates: &[NonZeroU32], messages: u32, now: Instant) {
        if let Ok(used) = entry(&mut self.lock(), nonce, rates, now) {
            add(used, rates, messages, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Nonce, Vec<(NonZeroU32, Instant)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was counted for a nonce, with an entry for each of these rates.
fn entry<'a>(
    nonces: &'a mut HashMap<Nonce, Vec<(NonZeroU32, Instant)>>,
    nonce: Nonce,
    rates: &[NonZeroU32],
    now: Instant,
) -> Result<&'a mut Vec<(NonZeroU32, Instant)>, RateExceeded> {
    if nonces.len() >= NONCES_MAX && !nonces.contains_key(&nonce) {
        nonces.retain(|_, used| used.iter().any(|(_, until)| *until > now));
        if nonces.len() >= NONCES_MAX {
            return Err(RateExceeded::Table);
        }
    }
    let used = nonces.entry(nonce).or_default();
    for rate in rates {
        if !used.iter().any(|(known, _)| known == rate) {
            if used.len() >= limits::CAVEATS_COUNT_MAX {
                used.retain(|(_, until)| *until > now);
            }
            if used.len() >= limits::CAVEATS_COUNT_MAX {
                return Err(RateExceeded::Table);
            }
            used.push((*rate, now));
        }
    }
    Ok(used)
}

fn add(used: &mut [(NonZeroU32, Instant)], rates: &[NonZeroU32], messages: u32, now: Instant) {
    for (rate, until) in used.iter_mut().filter(|(rate, _)| rates.contains(rate)) {
        *until = later(*until, *rate, messages, now);
    }
}

fn later(until: Instant, rate: NonZeroU32, messages: u32, now: Instant) -> Instant {
    until.max(now) + SECOND * messages / rate.get()
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn rate(messages: u32) -> NonZeroU32 {
        NonZeroU32::new(messages).unwrap()
    }

    fn nonce(number: usize) -> Nonce {
        Nonce::new((number as u128).to_be_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_has_its_rate_and_a_burst_of_one_second() {
        let limits = RateLimits::default();
        let count = |messages| limits.count(nonce(1), &[rate(10)], messages, Instant::now());
        for _ in 0..10 {
            assert_eq!(count(1), Ok(()));
        }
        assert_eq!(count(1), Err(RateExceeded::Token(Duration::from_millis(100))));
        assert_eq!(count(5), Err(RateExceeded::Token(Duration::from_millis(500))));
        // Refused messages do not count.
        advance(Duration::from_millis(500)).await;
        assert_eq!((count(5), count(1).is_err()), (Ok(()), true));
        advance(Duration::from_secs(60)).await;
        assert_eq!((count(10), count(1).is_err()), (Ok(()), true));
        assert_eq!(limits.count(nonce(2), &[rate(10)], 10, Instant::now()), Ok(()), "another token");
    }

    #[tokio::test(start_paused = true)]
    async fn attenuated_tokens_share_the_rate_of_their_origin() {
        let limits = RateLimits::default();
        let mut sent = 0;
        for narrower in 1..10 {
            while limits.count(nonce(1), &[rate(10), rate(narrower)], 1, Instant::now()).is_ok() {
                sent += 1;
            }
        }
        assert_eq!(sent, 10);
        advance(SECOND).await;
        let own = |messages| limits.count(nonce(1), &[rate(10), rate(3)], messages, Instant::now());
        assert_eq!((own(3), own(1).is_err()), (Ok(()), true), "its own rate counts too");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_received_has_to_be_waited_for() {
        let limits = RateLimits::default();
        let may_receive = || limits.count(nonce(1), &[rate(10)], 0, Instant::now());
        assert_eq!(may_receive(), Ok(()));
        limits.add(nonce(1), &[rate(10)], 35, Instant::now());
        assert_eq!(may_receive(), Err(RateExceeded::Token(Duration::from_millis(2_500))));
        advance(Duration::from_millis(2_500)).await;
        assert_eq!(may_receive(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_forgets_what_is_not_in_use() {
        let limits = RateLimits::default();
        for number in 0..NONCES_MAX {
            limits.count(nonce(number), &[rate(1)], 1, Instant::now()).unwrap();
        }
        let another = || limits.count(nonce(NONCES_MAX), &[rate(1)], 1, Instant::now());
        assert_eq!(another(), Err(RateExceeded::Table));
        advance(SECOND).await;
        assert_eq!(another(), Ok(()));
        assert_eq!(limits.0.lock().unwrap().len(), 1);
        // A holder that makes many rates harms only its own nonce.
        let many = (1..100).map(|number| limits.count(nonce(7), &[rate(number)], 1, Instant::now()));
        assert!(many.flatten().count() <= limits::CAVEATS_COUNT_MAX);
        assert_eq!(limits.count(nonce(8), &[rate(1)], 1, Instant::now()), Ok(()));
    }
}
