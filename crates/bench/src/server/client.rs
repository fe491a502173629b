//! Clients of the peers: as little as each protocol needs, so that the load process leaves the processor to the servers.

pub(crate) mod beanstalkd;
mod connection;
mod http;
pub(crate) mod nats;
pub(crate) mod oncebox;
pub(crate) mod redis;

use std::fmt;
use std::future::Future;
use std::io;

use super::job::{Job, Peer};

/// One connection. Every method is bounded by the deadline of the whole run.
pub(crate) trait Client: Sized + Send + 'static {
    /// Connects. The first connection of a run also makes what the peer needs: a stream, a group, a script.
    fn open(job: &Job, number: usize) -> impl Future<Output = io::Result<Self>> + Send;

    /// Sends messages; all are confirmed when it returns.
    fn send(&mut self, keys: &[Key]) -> impl Future<Output = io::Result<()>> + Send;

    /// Receives what is ready, a call's worth at most, and acknowledges that or what the call before received. Answers how
    /// many came.
    fn work(&mut self) -> impl Future<Output = io::Result<usize>> + Send;

    /// Whether something was received and not yet acknowledged.
    fn holds(&self) -> bool;

    /// Acknowledges what is still held.
    fn finish(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// The identity of a message: no other run on the same server has it.
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

/// Whether the peer answers as one that can work.
pub(crate) async fn ready(job: &Job) -> io::Result<()> {
    match job.peer {
        Peer::Oncebox | Peer::Bare => oncebox::ready(job.port).await,
        Peer::Beanstalkd => beanstalkd::Beanstalkd::open(job, 0).await.map(drop),
        Peer::Redis => redis::Redis::open(job, 0).await.map(drop),
        Peer::Nats => nats::Nats::open(job, 0).await.map(drop),
    }
}

/// An answer that was not expected.
fn unexpected(what: &str, answer: &[u8]) -> io::Error {
    let answer = String::from_utf8_lossy(&answer[..answer.len().min(300)]);
    io::Error::other(format!("{what} was answered with '{answer}'"))
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn a_key_can_be_read_back() {
        let key = Key { run: 0x2a, number: 77 };
        assert_eq!(Key::parse(&key.to_string()), Some(key));
        assert_eq!(Key::parse("x"), None);
    }
}
