//! Ports for servers.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The error of a server whose port is in use.
const TAKEN: &str = "Address already in use";
const ATTEMPTS: u32 = 8;
/// Below the ephemeral ports of clients, so that no client gets a server's port while the server is down.
const FIRST: u32 = 18_000;
const COUNT: u32 = 12_000;

/// Calls `start` with a free port, and with another one if another process takes that port first.
pub(super) fn on_free_port<T>(mut start: impl FnMut(u16) -> Result<T, String>) -> Result<T, String> {
    let mut outcome = Err(TAKEN.to_owned());
    for _ in 0..ATTEMPTS {
        outcome = start(free_port()?);
        if !matches!(&outcome, Err(error) if error.contains(TAKEN)) {
            break;
        }
    }
    outcome
}

fn free_port() -> Result<u16, String> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Concurrent processes start far from each other.
    let first = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + first.wrapping_add(tried) % COUNT).unwrap_or_default();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no free port from {FIRST} on"))
}
