//! Phases that all connections run concurrently: send, drain, or both alternately.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_system::uptime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::server::client::{Client, Key};
use crate::server::job::{Job, Latency};

/// How long a connection without messages waits while others still hold some.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Phase {
    /// Number of messages.
    pub(super) count: u64,
    seconds: f64,
    /// How long each call took; empty for phases that do not measure it.
    pub(super) latencies: Vec<Duration>,
}

impl Phase {
    fn since(start: Duration, count: u64, latencies: Vec<Duration>) -> Self {
        Self::between(start, uptime(), count, latencies)
    }

    fn between(start: Duration, end: Duration, count: u64, latencies: Vec<Duration>) -> Self {
        Self { count, seconds: end.saturating_sub(start).as_secs_f64(), latencies }
    }

    pub(super) fn per_second(&self) -> f64 {
        f64::from(u32::try_from(self.count).unwrap_or(u32::MAX)) / self.seconds
    }
}

/// Generates the keys of a run.
#[derive(Clone)]
struct Keys {
    run: u64,
    batch: u64,
    next: Arc<AtomicU64>,
}

impl Keys {
    fn new(job: &Job) -> Self {
        Self { run: job.run, batch: job.load.batch as u64, next: Arc::default() }
    }

    /// The keys for one call.
    fn take(&self) -> Vec<Key> {
        let first = self.next.fetch_add(self.batch, Ordering::Relaxed);
        (first..first + self.batch).map(|number| Key { run: self.run, number }).collect()
    }

    fn count(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Sends for the duration of the job.
pub(super) async fn send<C: Client>(clients: Vec<C>, job: &Job) -> io::Result<(Vec<C>, Phase)> {
    let (keys, start) = (Keys::new(job), uptime());
    let end = start + Duration::from_secs_f64(job.seconds);
    let spawn = |client| tokio::spawn(sender(client, keys.clone(), end));
    let ended = join(clients.into_iter().map(spawn).collect()).await?;
    let (clients, latencies): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    Ok((clients, Phase::since(start, keys.count(), latencies.concat())))
}

async fn sender<C: Client>(mut client: C, keys: Keys, end: Duration) -> io::Result<(C, Vec<Duration>)> {
    let mut latencies = Vec::new();
    loop {
        let start = uptime();
        if start >= end {
            return Ok((client, latencies));
        }
        client.send(&keys.take()).await?;
        latencies.push(uptime().saturating_sub(start));
    }
}

/// State shared by the draining connections.
struct Drain {
    count: u64,
    received: AtomicU64,
    /// Closed when all messages are received.
    all: Semaphore,
}

/// Receives and acknowledges `count` messages, which are all ready.
pub(super) async fn drain<C: Client>(clients: Vec<C>, count: u64) -> io::Result<Phase> {
    let shared = Arc::new(Drain { count, received: AtomicU64::new(0), all: Semaphore::new(0) });
    let start = uptime();
    let spawn = |client| tokio::spawn(drainer(client, Arc::clone(&shared)));
    let ended = join(clients.into_iter().map(spawn).collect()).await?;
    let received = shared.received.load(Ordering::Relaxed);
    if received > count {
        return Err(io::Error::other(format!("{count} messages were sent, but {received} were received")));
    }
    Ok(Phase::between(start, ended.into_iter().max().unwrap_or(start), count, Vec::new()))
}

/// Returns when its last message was acknowledged; the time to find that there are no more is not included.
async fn drainer<C: Client>(mut client: C, shared: Arc<Drain>) -> io::Result<Duration> {
    let mut end = Duration::ZERO;
    while shared.received.load(Ordering::Relaxed) < shared.count {
        let held = client.has_unacked();
        let received = tokio::select! {
            biased;
            received = client.work() => received?,
            // A peer may block a receive without messages, so it is cancelled; messages that are held must be
            // acknowledged.
            _ = shared.all.acquire(), if !held => break,
        };
        if received > 0 || held {
            end = uptime();
        }
        let before = shared.received.fetch_add(received as u64, Ordering::Relaxed);
        if before + received as u64 >= shared.count {
            shared.all.close();
        } else if received == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    if client.has_unacked() {
        client.finish().await?;
        end = uptime();
    }
    Ok(end)
}

/// Every connection sends one batch, then receives and acknowledges one.
pub(super) async fn cycle<C: Client>(clients: Vec<C>, job: &Job) -> io::Result<Phase> {
    let (keys, start) = (Keys::new(job), uptime());
    let end = start + Duration::from_secs_f64(job.seconds);
    let spawn = |client| tokio::spawn(cycler(client, keys.clone(), end));
    join(clients.into_iter().map(spawn).collect()).await?;
    Ok(Phase::since(start, keys.count(), Vec::new()))
}

async fn cycler<C: Client>(mut client: C, keys: Keys, end: Duration) -> io::Result<()> {
    while uptime() < end {
        client.send(&keys.take()).await?;
        client.work().await?;
    }
    client.finish().await
}

pub(super) async fn join<T>(tasks: Vec<JoinHandle<io::Result<T>>>) -> io::Result<Vec<T>> {
    let mut ended = Vec::with_capacity(tasks.len());
    for task in tasks {
        ended.push(task.await.map_err(io::Error::other)??);
    }
    Ok(ended)
}

/// Percentiles of the latencies; zeros if there are none.
pub(super) fn latency(mut latencies: Vec<Duration>) -> Latency {
    latencies.sort();
    let micros = |percent: usize| {
        let index = (latencies.len() * percent / 100).min(latencies.len().saturating_sub(1));
        latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
    };
    Latency { p50: micros(50), p95: micros(95), p99: micros(99), longest: micros(100) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::latency;

    #[test]
    fn percentiles_are_taken_from_the_sorted_values() {
        let latency = latency((0..1_000).rev().map(Duration::from_micros).collect());
        assert_eq!(latency.to_string(), "500/950/990/999");
    }
}
