//! Nodes: each has a worker that is crashed, stopped, paused and started again until the world is calm.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{
    Backoff, Growth, Jitter, Oncebox, Owner, Route, Running, Stopped, Unhandled, Worker as Library,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::chance::Dice;
use crate::event::{Setup, Sums, What};
use crate::handler::{Bench, handle, handle_number};
use crate::sender::TOPICS;
use crate::time::millis;
use crate::world::World;

pub(crate) struct Node {
    world: Arc<World>,
    oncebox: Oncebox,
    dice: Dice,
    /// The first node's workers also take what nobody handles.
    number: u64,
}

/// A worker that runs.
struct Worker {
    number: u64,
    form: Form,
}

enum Form {
    /// `Worker::run` in a task of ours, and what makes it stop.
    Task(JoinHandle<()>, oneshot::Sender<()>),
    /// `Worker::start`.
    Background(Running),
}

impl Node {
    pub(crate) fn new(world: Arc<World>, oncebox: Oncebox, number: u64) -> Self {
        let dice = Dice::new(world.seed, &format!("node {number}"));
        Self { world, oncebox, dice, number }
    }

    /// Lives through the storm, then works in the calm until all is done.
    pub(crate) async fn run(mut self) {
        while !self.world.is_calm() {
            let worker = self.start();
            self.live(worker).await;
            let pause = self.dice.millis(0, 2_000);
            self.pass(pause).await;
        }
        let worker = self.start();
        self.world.finished().await;
        self.stop(worker).await;
    }

    /// Lets time pass, but not beyond the calm.
    async fn pass(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.world.calmed() => {}
            () = sleep(time) => {}
        }
    }

    async fn live(&mut self, worker: Worker) {
        let mut worker = worker;
        loop {
            let time = self.dice.millis(100, 15_000);
            self.pass(time).await;
            if self.world.is_calm() {
                return self.stop(worker).await;
            }
            let goes_on = match (&mut worker.form, self.dice.between(0, 9)) {
                (Form::Task(task, _), 0..=5) => {
                    task.abort();
                    // A task that was ended has nothing more to tell.
                    let _ = task.await;
                    return self.tell(What::Crashed { worker: worker.number });
                }
                (Form::Background(running), 0..=5) => self.interrupt(worker.number, running).await,
                (_, fate) => fate > 8,
            };
            if !goes_on {
                return self.stop(worker).await;
            }
        }
    }

    /// Pauses or drains a worker, then lets it go on; false if it shall stop instead.
    async fn interrupt(&mut self, worker: u64, running: &mut Running) -> bool {
        self.tell(What::Paused { worker });
        if self.dice.percent(50) {
            self.reached(worker, running.pause().await);
        } else {
            let drained = tokio::select! {
                biased;
                () = self.world.calmed() => return false,
                drained = running.drain() => drained,
            };
            self.reached(worker, drained);
            self.tell(What::Drained { worker });
        }
        let pause = self.dice.millis(0, 5_000);
        self.pass(pause).await;
        if self.dice.percent(20) {
            return false;
        }
        self.tell(What::Resumed { worker });
        self.reached(worker, running.resume().await);
        true
    }

    fn reached(&self, worker: u64, reached: Result<(), oncebox::Error>) {
        if let Err(error) = reached {
            self.tell(What::Broke { worker, why: error.to_string() });
        }
    }

    async fn stop(&mut self, Worker { number: worker, form }: Worker) {
        self.tell(What::Stopping { worker });
        match form {
            Form::Task(task, stop) => {
                // If it has ended already, it has told why.
                let _ = stop.send(());
                let _ = task.await;
            }
            Form::Background(running) => {
                if let Err(error) = running.stop().await {
                    self.tell(What::Broke { worker, why: error.to_string() });
                }
            }
        }
    }

    fn tell(&self, what: What) {
        self.world.journal.tell(what);
    }

    fn start(&mut self) -> Worker {
        let number = self.world.next_worker();
        let setup = self.setup();
        let library = self.build(number, &setup);
        self.tell(What::Started { worker: number, setup });
        let form = if self.dice.percent(60) {
            let (stop, stopped) = oneshot::channel::<()>();
            let journal = self.world.journal.clone();
            let task = tokio::spawn(async move {
                let shutdown = async {
                    if stopped.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                if let Err(error) = library.run(shutdown).await {
                    journal.tell(What::Broke { worker: number, why: error.to_string() });
                }
            });
            Form::Task(task, stop)
        } else {
            Form::Background(library.start().expect("a worker of the simulation is set up rightly"))
        };
        Worker { number, form }
    }

    /// The first node takes every topic, also those without a handler, which cannot go with limits of topics.
    fn takes_all(&self) -> bool {
        self.number == 0
    }

    fn setup(&mut self) -> Setup {
        let unlimited = self.takes_all();
        let dice = &mut self.dice;
        let (narrow, rated) = (dice.pick(&[1, 2]), dice.pick(&[1, 3, 10]));
        Setup {
            concurrency: dice.pick(&[1, 2, 4, 8]),
            narrow: if unlimited { usize::MAX } else { narrow },
            rated: if unlimited { usize::MAX } else { rated },
            lease_ms: dice.pick(&[1_000, 2_000, 5_000, 10_000]),
            timeout_ms: dice.percent(40).then(|| dice.between(500, 8_000)),
            stop_budget_ms: dice.pick(&[0, 500, 3_000, 10_000]),
            attempts_max: dice.percent(15).then(|| u32::try_from(dice.between(1, 4)).unwrap_or(1)),
        }
    }

    fn build(&mut self, number: u64, setup: &Setup) -> Library<Bench> {
        let lease = Duration::from_millis(setup.lease_ms);
        let timeout = setup.timeout_ms.map(Duration::from_millis);
        let bench = Bench { world: self.world.clone(), worker: number, lease, timeout };
        let dice = &mut self.dice;
        let poll = dice.millis(100, 1_000);
        let most = millis(poll) * dice.between(1, 4);
        let (first, jitter) =
            (dice.millis(10, 1_000), dice.pick(&[Jitter::None, Jitter::Fifth, Jitter::Full]));
        let backoff = Backoff::new(first, Duration::from_secs(5), Growth::Exponential, jitter);
        let mut library = Library::new(&self.oncebox)
            .with_state(bench)
            .owner(Owner::new(number.into()).expect("workers are counted from one"))
            .concurrency(setup.concurrency)
            .batch(dice.pick(&[1, 3, 50]))
            .lease(lease)
            .poll_interval(poll, Duration::from_millis(most))
            .backoff(backoff.expect("a first delay is not longer than the longest"))
            .stop_budget(Duration::from_millis(setup.stop_budget_ms))
            .call_timeout(dice.millis(500, 5_000));
        if let Some(timeout) = timeout {
            library = library.timeout(timeout);
        }
        if let Some(attempts) = setup.attempts_max {
            library = library.attempts_max(attempts);
        }
        if dice.percent(30) {
            library = library.without_look_ahead();
        }
        self.with_topics(library, setup).on_stop(self.farewell(number))
    }

    fn with_topics(&mut self, library: Library<Bench>, setup: &Setup) -> Library<Bench> {
        let takes_all = self.takes_all();
        // In the storm a worker may lack a topic: others have to take it.
        let lacking =
            (!takes_all && !self.world.is_calm() && self.dice.percent(30)).then(|| self.dice.pick(&TOPICS));
        let mut library = library;
        for topic in TOPICS.into_iter().filter(|topic| Some(*topic) != lacking) {
            library = library.route(match topic {
                "narrow" if !takes_all => Route::new(topic, handle).concurrency(setup.narrow),
                "rated" if !takes_all => {
                    Route::new(topic, handle).per_second(f64::from(u32::try_from(setup.rated).unwrap_or(1)))
                }
                "number" => Route::new(topic, handle_number),
                _ => Route::new(topic, handle),
            });
        }
        if takes_all { library.on_unhandled(Unhandled::Dead) } else { library }
    }

    /// What tells that a worker has stopped.
    fn farewell(&self, worker: u64) -> impl FnOnce(Stopped) -> std::future::Ready<()> + Send + 'static {
        let journal = self.world.journal.clone();
        move |stopped| {
            let Stopped { handled, retrying, dead, released, superseded, unsettled, .. } = stopped;
            let sums = Sums { handled, retrying, dead, released, superseded, unsettled };
            journal.tell(What::Stopped { worker, sums });
            std::future::ready(())
        }
    }
}
