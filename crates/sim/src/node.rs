//! Nodes. Each runs a worker that is crashed, stopped, paused and restarted until the faults end.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{
    Backoff, Oncebox, Worker, WorkerHandle, WorkerSummary,
    queue::Owner,
    worker::{Growth, Jitter, Route, Unhandled},
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::event::{EventKind, WorkerSetup, WorkerTotals};
use crate::handler::{HandlerState, handle, handle_number};
use crate::random::RandomStream;
use crate::sender::TOPICS;
use crate::time::millis;
use crate::world::World;

pub(crate) struct Node {
    world: Arc<World>,
    oncebox: Oncebox,
    random: RandomStream,
    number: u64,
}

/// A running worker.
struct RunningWorker {
    number: u64,
    mode: RunMode,
}

enum RunMode {
    /// `Worker::run` in a task of the simulation, and its stop signal.
    Task(JoinHandle<()>, oneshot::Sender<()>),
    /// `Worker::start`.
    Background(WorkerHandle),
}

impl Node {
    pub(crate) fn new(world: Arc<World>, oncebox: Oncebox, number: u64) -> Self {
        let random = RandomStream::new(world.seed, &format!("node {number}"));
        Self { world, oncebox, random, number }
    }

    /// Runs workers during the faults, then one worker until all messages are finished.
    pub(crate) async fn run(mut self) {
        while !self.world.faults_ended() {
            let worker = self.start();
            self.disturb(worker).await;
            let pause = self.random.millis(0, 2_000);
            self.pause(pause).await;
        }
        let worker = self.start();
        self.world.finished().await;
        self.stop(worker).await;
    }

    /// Sleeps, but not beyond the end of the faults.
    async fn pause(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.world.until_faults_end() => {}
            () = sleep(time) => {}
        }
    }

    async fn disturb(&mut self, worker: RunningWorker) {
        let mut worker = worker;
        loop {
            let time = self.random.millis(100, 15_000);
            self.pause(time).await;
            if self.world.faults_ended() {
                return self.stop(worker).await;
            }
            let keeps_running = match (&mut worker.mode, self.random.between(0, 9)) {
                (RunMode::Task(task, _), 0..=5) => {
                    task.abort();
                    // The result of an aborted task is of no interest.
                    let _ = task.await;
                    return self.record(EventKind::Crashed { worker: worker.number });
                }
                (RunMode::Background(running), 0..=5) => self.interrupt(worker.number, running).await,
                (_, choice) => choice > 8,
            };
            if !keeps_running {
                return self.stop(worker).await;
            }
        }
    }

    /// Pauses or drains a worker, then resumes it. Returns false if the worker is to be stopped instead.
    async fn interrupt(&mut self, worker: u64, running: &mut WorkerHandle) -> bool {
        self.record(EventKind::Paused { worker });
        if self.random.percent(50) {
            self.record_failure(worker, running.pause().await);
        } else {
            let drained = tokio::select! {
                biased;
                () = self.world.until_faults_end() => return false,
                drained = running.drain() => drained,
            };
            self.record_failure(worker, drained);
            self.record(EventKind::Drained { worker });
        }
        let pause = self.random.millis(0, 5_000);
        self.pause(pause).await;
        if self.random.percent(20) {
            return false;
        }
        self.record(EventKind::Resumed { worker });
        self.record_failure(worker, running.resume().await);
        true
    }

    fn record_failure(&self, worker: u64, result: Result<(), oncebox::Error>) {
        if let Err(error) = result {
            self.record(EventKind::WorkerFailed { worker, error: error.to_string() });
        }
    }

    async fn stop(&mut self, RunningWorker { number: worker, mode }: RunningWorker) {
        self.record(EventKind::Stopping { worker });
        match mode {
            RunMode::Task(task, stop) => {
                // If the worker has already ended, its error is recorded.
                let _ = stop.send(());
                let _ = task.await;
            }
            RunMode::Background(running) => {
                if let Err(error) = running.stop().await {
                    self.record(EventKind::WorkerFailed { worker, error: error.to_string() });
                }
            }
        }
    }

    fn record(&self, kind: EventKind) {
        self.world.journal.record(kind);
    }

    fn start(&mut self) -> RunningWorker {
        let number = self.world.next_worker();
        let setup = self.setup();
        let worker = self.build(number, &setup);
        self.record(EventKind::Started { worker: number, node: self.number, setup });
        let mode = if self.random.percent(60) {
            let (stop, stopped) = oneshot::channel::<()>();
            let journal = self.world.journal.clone();
            let task = tokio::spawn(async move {
                let shutdown = async {
                    if stopped.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                if let Err(error) = worker.run(shutdown).await {
                    journal.record(EventKind::WorkerFailed { worker: number, error: error.to_string() });
                }
            });
            RunMode::Task(task, stop)
        } else {
            RunMode::Background(worker.start().expect("the settings of a simulated worker are valid"))
        };
        RunningWorker { number, mode }
    }

    /// Node 0 claims every topic, also those without a handler; that excludes limits per topic.
    fn claims_all(&self) -> bool {
        self.number == 0 && !self.world.pauses_topics
    }

    fn setup(&mut self) -> WorkerSetup {
        let unlimited = self.claims_all();
        let random = &mut self.random;
        let (narrow, rated) = (random.pick(&[1, 2]), random.pick(&[1, 3, 10]));
        WorkerSetup {
            concurrency: random.pick(&[1, 2, 4, 8]),
            narrow: if unlimited { usize::MAX } else { narrow },
            rated: if unlimited { usize::MAX } else { rated },
            lease_ms: random.pick(&[1_000, 2_000, 5_000, 10_000]),
            timeout_ms: random.percent(40).then(|| random.between(500, 8_000)),
            stop_budget_ms: random.pick(&[0, 500, 3_000, 10_000]),
            attempts_max: random.percent(15).then(|| u32::try_from(random.between(1, 4)).unwrap_or(1)),
        }
    }

    fn build(&mut self, number: u64, setup: &WorkerSetup) -> Worker<HandlerState> {
        let lease = Duration::from_millis(setup.lease_ms);
        let timeout = setup.timeout_ms.map(Duration::from_millis);
        let state = HandlerState { world: self.world.clone(), worker: number, lease, timeout };
        let random = &mut self.random;
        let poll = random.millis(100, 1_000);
        let longest = millis(poll) * random.between(1, 4);
        let (first, jitter) =
            (random.millis(10, 1_000), random.pick(&[Jitter::None, Jitter::Fifth, Jitter::Full]));
        let backoff = Backoff::new(first, Duration::from_secs(5), Growth::Exponential, jitter);
        let mut worker = Worker::new(&self.oncebox)
            .with_state(state)
            .owner(Owner::new(number.into()).expect("worker numbers start at 1"))
            .concurrency(setup.concurrency)
            .batch(random.pick(&[1, 3, 50]))
            .lease(lease)
            .poll_interval(poll, Duration::from_millis(longest))
            .backoff(backoff.expect("the first delay is not longer than the maximum"))
            .stop_budget(Duration::from_millis(setup.stop_budget_ms))
            .call_timeout(random.millis(500, 5_000));
        if let Some(timeout) = timeout {
            worker = worker.timeout(timeout);
        }
        if let Some(attempts) = setup.attempts_max {
            worker = worker.attempts_max(attempts);
        }
        if random.percent(30) {
            worker = worker.without_prefetch();
        }
        self.with_topics(worker, setup).on_stop(self.stop_callback(number))
    }

    fn with_topics(&mut self, worker: Worker<HandlerState>, setup: &WorkerSetup) -> Worker<HandlerState> {
        let claims_all = self.claims_all();
        // During the faults, a worker may lack a topic, so that others must handle it.
        let lacking = (!claims_all && !self.world.faults_ended() && self.random.percent(30))
            .then(|| self.random.pick(&TOPICS));
        let mut worker = worker;
        for topic in TOPICS.into_iter().filter(|topic| Some(*topic) != lacking) {
            worker = worker.route(match topic {
                "narrow" if !claims_all => Route::new(topic, handle).concurrency(setup.narrow),
                "rated" if !claims_all => {
                    Route::new(topic, handle).per_second(f64::from(u32::try_from(setup.rated).unwrap_or(1)))
                }
                "number" => Route::new(topic, handle_number),
                _ => Route::new(topic, handle),
            });
        }
        if claims_all { worker.on_unhandled(Unhandled::Dead) } else { worker }
    }

    /// The callback that records that a worker has stopped.
    fn stop_callback(
        &self,
        worker: u64,
    ) -> impl FnOnce(WorkerSummary) -> std::future::Ready<()> + Send + 'static {
        let journal = self.world.journal.clone();
        move |stopped| {
            let WorkerSummary { handled, retrying, dead, released, superseded, unsettled, .. } = stopped;
            let totals = WorkerTotals { handled, retrying, dead, released, superseded, unsettled };
            journal.record(EventKind::Stopped { worker, totals });
            std::future::ready(())
        }
    }
}
