//! The load process: drives one peer as its job says, prints the outcome, and exits.

mod paced;
mod phase;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Builder;

use super::client::Client;
use super::client::beanstalkd::Beanstalkd;
use super::client::nats::Nats;
use super::client::oncebox::Oncebox;
use super::client::redis::Redis;
use super::job::{Job, Outcome, Peer, Task};

/// How much longer than planned a run may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the process; its only argument is a [`Job`].
pub(crate) fn run(argument: Option<String>) -> ExitCode {
    let job = argument.and_then(|text| serde_json::from_str(&text).ok());
    let Some(job) = job else {
        eprintln!("`load` is started by the benchmark `server`, with a job as JSON");
        return ExitCode::from(2);
    };
    match drive(&job) {
        Ok(outcome) => {
            println!("{}", serde_json::to_string(&outcome).expect("figures are JSON"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", job.peer);
            ExitCode::FAILURE
        }
    }
}

fn drive(job: &Job) -> io::Result<Outcome> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let deadline = Duration::from_secs_f64(job.seconds) + TIMEOUT;
    let outcome = runtime.block_on(async {
        match tokio::time::timeout(deadline, task(job)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(io::Error::other(format!("the run did not finish within {} s", deadline.as_secs())))
            }
        }
    });
    // Does not wait for tasks of a failed run.
    runtime.shutdown_background();
    outcome
}

async fn task(job: &Job) -> io::Result<Outcome> {
    if let Task::Paced { per_second } = job.task {
        return paced::run(job, per_second).await;
    }
    match job.peer {
        Peer::Oncebox | Peer::Tokens | Peer::Bare => closed_loop::<Oncebox>(job).await,
        Peer::Beanstalkd => closed_loop::<Beanstalkd>(job).await,
        Peer::Redis => closed_loop::<Redis>(job).await,
        Peer::Nats => closed_loop::<Nats>(job).await,
    }
}

/// A closed loop: each connection makes its next call as soon as the previous one is answered.
async fn closed_loop<C: Client>(job: &Job) -> io::Result<Outcome> {
    let mut clients = Vec::with_capacity(job.load.connections);
    for number in 0..job.load.connections {
        clients.push(C::open(job, number).await?);
    }
    if matches!(job.task, Task::Cycle) {
        let cycled = phase::cycle(clients, job).await?;
        return Ok(Outcome { per_second: cycled.per_second(), ..Outcome::default() });
    }
    let (clients, sent) = phase::send(clients, job).await?;
    let sent_per_second = sent.per_second();
    let latency = phase::latency(sent.latencies);
    if matches!(job.task, Task::Send) {
        return Ok(Outcome { per_second: sent_per_second, sent_per_second, latency, ..Outcome::default() });
    }
    let drained_per_second = phase::drain(clients, sent.count).await?.per_second();
    // The seconds per message of both phases add up.
    let per_second = 1.0 / (1.0 / sent_per_second + 1.0 / drained_per_second);
    Ok(Outcome { per_second, sent_per_second, drained_per_second, latency })
}
