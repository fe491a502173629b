//! Minimal clients for the peers, so that the load process leaves CPU time to the servers.

pub(crate) mod beanstalkd;
mod connection;
pub(crate) mod http;
pub(crate) mod nats;
pub(crate) mod oncebox;
pub(crate) mod redis;

use std::fmt;
use std::future::Future;
use std::io;

use super::job::{Job, Peer};

/// One connection. Every method is bounded by the deadline of the whole run.
pub(crate) trait Client: Sized + Send + 'static {
    /// Connects. The first connection of a run also creates what the peer needs: a stream, a group, a script.
    fn open(job: &Job, number: usize) -> impl Future<Output = io::Result<Self>> + Send;

    /// Sends messages and waits until all are confirmed.
    fn send(&mut self, keys: &[Key]) -> impl Future<Output = io::Result<()>> + Send;

    /// Receives at most one batch of ready messages, and acknowledges them or those of the previous call. Returns the
    /// number of received messages.
    fn work(&mut self) -> impl Future<Output = io::Result<usize>> + Send;

    /// Whether received messages are not yet acknowledged.
    fn has_unacked(&self) -> bool;

    /// Acknowledges the remaining messages.
    fn finish(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// The identity of a message, unique across runs on the same server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) run: u64,
    pub(crate) number: u64,
}

impl Key {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { run: hex(run)?, number: hex(number)? })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.run, self.number)
    }
}

/// Succeeds if the peer is ready.
pub(crate) async fn ready(job: &Job) -> io::Result<()> {
    match job.peer {
        Peer::Oncebox | Peer::Tokens | Peer::Bare => oncebox::ready(job.port).await,
        Peer::Beanstalkd => beanstalkd::Beanstalkd::open(job, 0).await.map(drop),
        Peer::Redis => redis::Redis::open(job, 0).await.map(drop),
        Peer::Nats => nats::Nats::open(job, 0).await.map(drop),
    }
}

/// The error for an unexpected response to `request`.
fn unexpected(request: &str, answer: &[u8]) -> io::Error {
    let answer = String::from_utf8_lossy(&answer[..answer.len().min(300)]);
    io::Error::other(format!("unexpected response to {request}: '{answer}'"))
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn a_key_round_trips() {
        let key = Key { run: 0x2a, number: 77 };
        assert_eq!(Key::parse(&key.to_string()), Some(key));
        assert_eq!(Key::parse("x"), None);
    }
}
