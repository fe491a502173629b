//! Randomness for ids of calls and requests, and for the jitter of the backoff.

use uuid::Builder;

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without a source of randomness, ids could not be unique.
    getrandom::fill(&mut bytes).expect("the system has a source of randomness");
    bytes
}

/// A new UUID.
pub(crate) fn uuid() -> String {
    Builder::from_random_bytes(bytes()).into_uuid().to_string()
}

/// A random number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    f64::from(u32::from_ne_bytes(bytes())) / f64::from(u32::MAX)
}
