//! Randomness: ids of calls and requests, and the jitter of pauses.

use uuid::Builder;

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // A machine without randomness cannot make ids that nobody else has.
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// A new UUID.
pub(crate) fn uuid() -> String {
    Builder::from_random_bytes(bytes()).into_uuid().to_string()
}

/// From 0 to 1.
pub(crate) fn fraction() -> f64 {
    f64::from(u32::from_ne_bytes(bytes())) / f64::from(u32::MAX)
}
