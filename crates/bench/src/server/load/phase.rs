//! What all connections do at the same time: send, drain, or both in turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_system::uptime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::server::client::{Client, Key};
use crate::server::job::{Job, Latency};

/// How long a connection that found nothing waits while others still hold messages.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Phase {
    /// Messages.
    pub(super) count: u64,
    seconds: f64,
    /// How long each call took, where that is of interest.
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

/// Hands out the keys of a run.
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

    /// As many as go into one call.
    fn take(&self) -> Vec<Key> {
        let first = self.next.fetch_add(self.batch, Ordering::Relaxed);
        (first..first + self.batch).map(|number| Key { run: self.run, number }).collect()
    }

    fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Sends for as long as the job says.
pub(super) async fn send<C: Client>(clients: Vec<C>, job: &Job) -> io::Result<(Vec<C>, Phase)> {
    let (keys, start) = (Keys::new(job), uptime());
    let end = start + Duration::from_secs_f64(job.seconds);
    let spawn = |client| tokio::spawn(sender(client, keys.clone(), end));
    let ended = join(clients.into_iter().map(spawn).collect()).await?;
    let (clients, latencies): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    Ok((clients, Phase::since(start, keys.taken(), latencies.concat())))
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

/// What those who drain together know.
struct Drain {
    count: u64,
    received: AtomicU64,
    /// Closed when all were received.
    all: Semaphore,
}

/// Receives and acknowledges so many messages, which are all there.
pub(super) async fn drain<C: Client>(clients: Vec<C>, count: u64) -> io::Result<Phase> {
    let shared = Arc::new(Drain { count, received: AtomicU64::new(0), all: Semaphore::new(0) });
    let start = uptime();
    let spawn = |client| tokio::spawn(drainer(client, Arc::clone(&shared)));
    let ended = join(clients.into_iter().map(spawn).collect()).await?;
    let received = shared.received.load(Ordering::Relaxed);
    if received > count {
        return Err(io::Error::other(format!("{count} messages were sent, but {received} came")));
    }
    Ok(Phase::between(start, ended.into_iter().max().unwrap_or(start), count, Vec::new()))
}

/// Answers when its last message was acknowledged; how long it then takes to see that there are no more does not count.
async fn drainer<C: Client>(mut client: C, shared: Arc<Drain>) -> io::Result<Duration> {
    let mut end = Duration::ZERO;
    while shared.received.load(Ordering::Relaxed) < shared.count {
        let held = client.holds();
        let came = tokio::select! {
            biased;
            came = client.work() => came?,
            // A peer may let those wait for whom there is nothing. What is held must be acknowledged, though.
            _ = shared.all.acquire(), if !held => break,
        };
        if came > 0 || held {
            end = uptime();
        }
        let before = shared.received.fetch_add(came as u64, Ordering::Relaxed);
        if before + came as u64 >= shared.count {
            shared.all.close();
        } else if came == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    if client.holds() {
        client.finish().await?;
        end = uptime();
    }
    Ok(end)
}

/// Every connection sends a call's worth, then receives and acknowledges as much.
pub(super) async fn cycle<C: Client>(clients: Vec<C>, job: &Job) -> io::Result<Phase> {
    let (keys, start) = (Keys::new(job), uptime());
    let end = start + Duration::from_secs_f64(job.seconds);
    let spawn = |client| tokio::spawn(cycler(client, keys.clone(), end));
    join(clients.into_iter().map(spawn).collect()).await?;
    Ok(Phase::since(start, keys.taken(), Vec::new()))
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

/// The latencies that so many percent stay within; zeros if there are none.
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
    fn a_percentile_is_the_value_that_so_many_stay_within() {
        let latency = latency((0..1_000).rev().map(Duration::from_micros).collect());
        assert_eq!(latency.to_string(), "500/950/990/999");
    }
}
