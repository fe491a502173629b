//! An open loop: messages are sent at their planned times, regardless of response times, while other connections
//! receive. Latency is measured from the planned time, so that a sender that falls behind is not excluded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_system::uptime;
use tokio::sync::Semaphore;

use super::phase::{join, latency};
use crate::server::client::oncebox::Oncebox;
use crate::server::client::{Client, Key};
use crate::server::job::{Job, Outcome, Peer};

/// How often the pacer checks for due messages; the runtime's timer is too coarse.
const TICK: Duration = Duration::from_micros(250);
const WAIT_MS: u64 = 500;

/// The schedule of the messages.
struct Plan {
    start: Duration,
    interval: Duration,
    count: u64,
    /// One permit per message that is due.
    due: Semaphore,
    /// The next message to send.
    next: AtomicU64,
    received: AtomicU64,
}

impl Plan {
    fn due_at(&self, number: u64) -> Duration {
        self.start + self.interval.mul_f64(f64::from(u32::try_from(number).unwrap_or(u32::MAX)))
    }
}

/// Half of the connections send, the other half receive.
pub(super) async fn run(job: &Job, per_second: f64) -> io::Result<Outcome> {
    if job.peer != Peer::Oncebox || job.load.batch != 1 {
        return Err(io::Error::other("only unbatched calls to our own server can be paced"));
    }
    let mut clients = Vec::new();
    for number in 0..job.load.connections {
        clients.push(Oncebox::open(job, number).await?);
    }
    let receivers = clients.split_off(job.load.connections / 2);
    let plan = Arc::new(Plan {
        start: uptime() + TICK,
        interval: Duration::from_secs_f64(1.0 / per_second),
        count: whole(job.seconds * per_second),
        due: Semaphore::new(0),
        next: AtomicU64::new(0),
        received: AtomicU64::new(0),
    });
    let shared = Arc::clone(&plan);
    let pacer = std::thread::Builder::new().name("pacer".to_owned()).spawn(move || pace(&shared))?;
    let receivers =
        receivers.into_iter().map(|client| tokio::spawn(receiver(client, Arc::clone(&plan)))).collect();
    let senders =
        clients.into_iter().map(|client| tokio::spawn(sender(client, Arc::clone(&plan), job.run))).collect();
    join(senders).await?;
    let (latencies, ends): (Vec<_>, Vec<_>) = join(receivers).await?.into_iter().unzip();
    let took = ends.into_iter().max().unwrap_or_default().saturating_sub(plan.start).as_secs_f64();
    pacer.join().map_err(|_| io::Error::other("the pacer panicked"))?;
    let rate = f64::from(u32::try_from(plan.count).unwrap_or(u32::MAX)) / took;
    Ok(Outcome {
        per_second: rate,
        sent_per_second: rate,
        drained_per_second: rate,
        latency: latency(latencies.concat()),
    })
}

/// Releases messages when they are due.
fn pace(plan: &Plan) {
    let mut released = 0;
    while released < plan.count {
        let now = uptime();
        let mut due = 0;
        while released + due < plan.count && plan.due_at(released + due) <= now {
            due += 1;
        }
        plan.due.add_permits(usize::try_from(due).unwrap_or(usize::MAX));
        released += due;
        std::thread::park_timeout(TICK);
    }
    plan.due.close();
}

async fn sender(mut client: Oncebox, plan: Arc<Plan>, run: u64) -> io::Result<()> {
    while let Some(number) = next_due(&plan).await {
        client.send(&[Key { run, number }]).await?;
    }
    Ok(())
}

/// The next due message; `None` when all are sent.
async fn next_due(plan: &Plan) -> Option<u64> {
    match plan.due.acquire().await {
        Ok(permit) => permit.forget(),
        // The pacer has finished; messages that it released must still be sent.
        Err(_) => tokio::task::yield_now().await,
    }
    let number = plan.next.fetch_add(1, Ordering::Relaxed);
    (number < plan.count).then_some(number)
}

/// Returns the latencies of the received messages and the time of the last one.
async fn receiver(mut client: Oncebox, plan: Arc<Plan>) -> io::Result<(Vec<Duration>, Duration)> {
    let (mut latencies, mut end) = (Vec::new(), Duration::ZERO);
    while plan.received.load(Ordering::Relaxed) < plan.count {
        client.work_waiting(Some(WAIT_MS)).await?;
        if client.received.is_empty() {
            continue;
        }
        let now = uptime();
        end = now;
        latencies.extend(client.received.iter().map(|number| now.saturating_sub(plan.due_at(*number))));
        plan.received.fetch_add(client.received.len() as u64, Ordering::Relaxed);
    }
    client.finish().await?;
    Ok((latencies, end))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive count, far below 2^53"
)]
fn whole(count: f64) -> u64 {
    count as u64
}
