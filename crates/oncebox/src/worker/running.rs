//! A worker that runs in the background.

use oncebox_core::{Error, Kind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::engine::Command;

/// What a worker did until it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stopped {
    /// Messages that were handled and are Done.
    pub handled: u64,
    /// Deliveries that failed; their messages come again.
    pub retrying: u64,
    /// Messages that became Dead.
    pub dead: u64,
    /// Deliveries that were given back untried, or cancelled at the stop.
    pub released: u64,
    /// Deliveries whose content was replaced while they were handled; the newer content comes again.
    pub superseded: u64,
    /// Deliveries whose lease was lost; their results did not count.
    pub lost: u64,
    /// Deliveries that could not be settled before the time was up; they come again when their leases end.
    pub unsettled: u64,
}

/// A worker that runs in the background. Dropping this stops it gracefully, without waiting.
#[must_use = "dropping this stops the worker"]
pub struct Running {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) task: JoinHandle<Result<Stopped, Error>>,
}

impl Running {
    async fn tell(&self, command: Command) -> Result<(), Error> {
        let gone = |_| Error::new(Kind::Closed, "the worker has ended: wait for it to learn why");
        self.commands.send(command).await.map_err(gone)
    }

    /// Takes nothing new once this has answered; what is in handlers' hands goes on.
    pub async fn pause(&self) -> Result<(), Error> {
        let (told, paused) = oneshot::channel();
        self.tell(Command::Pause(told)).await?;
        paused.await.map_err(|_| Error::new(Kind::Closed, "the worker ended before it was paused"))
    }

    /// Works again after a pause.
    pub async fn resume(&self) -> Result<(), Error> {
        self.tell(Command::Resume).await
    }

    /// Pauses, and waits until nothing is in its hands any more; fails if it is resumed meanwhile.
    pub async fn drain(&self) -> Result<(), Error> {
        let (done, drained) = oneshot::channel();
        self.tell(Command::Drain(done)).await?;
        drained
            .await
            .map_err(|_| Error::new(Kind::Closed, "the worker ended, or was resumed, before it was drained"))
    }

    /// Stops: takes nothing new, waits for handlers as long as the stop budget allows, cancels the others, and gives their
    /// messages back.
    pub async fn stop(mut self) -> Result<Stopped, Error> {
        // If it has ended already, its result tells.
        let _ = self.commands.send(Command::Stop).await;
        self.wait().await
    }

    /// Waits until it ends by itself, which only a store that is closed or broken makes it do. Safe to cancel, to stop it
    /// then; once it has answered, it must not be asked again.
    pub async fn wait(&mut self) -> Result<Stopped, Error> {
        let ended = (&mut self.task).await;
        ended.map_err(|error| {
            Error::new(Kind::Unavailable, "the worker's task was ended").with_source(error)
        })?
    }
}
