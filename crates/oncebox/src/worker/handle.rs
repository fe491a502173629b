//! The handle of a worker that runs in the background.

use oncebox_core::{Error, ErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::engine::Command;
use super::summary::WorkerSummary;

/// A worker that runs in the background. Dropping this stops it gracefully, without waiting.
#[must_use = "dropping this stops the worker"]
pub struct WorkerHandle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) task: JoinHandle<Result<WorkerSummary, Error>>,
}

impl WorkerHandle {
    async fn send(&self, command: Command) -> Result<(), Error> {
        let closed = |_| Error::new(ErrorKind::Closed, "the worker has ended: call `wait` for the reason");
        self.commands.send(command).await.map_err(closed)
    }

    /// Pauses the worker: once this returns, it claims nothing new. Running handlers continue.
    pub async fn pause(&self) -> Result<(), Error> {
        let (sender, paused) = oneshot::channel();
        self.send(Command::Pause(sender)).await?;
        paused.await.map_err(|_| Error::new(ErrorKind::Closed, "the worker ended before it was paused"))
    }

    /// Resumes work after a pause.
    pub async fn resume(&self) -> Result<(), Error> {
        self.send(Command::Resume).await
    }

    /// Pauses the worker, and waits until it holds no deliveries. Fails if the worker is resumed meanwhile.
    pub async fn drain(&self) -> Result<(), Error> {
        let (sender, drained) = oneshot::channel();
        self.send(Command::Drain(sender)).await?;
        drained.await.map_err(|_| {
            Error::new(ErrorKind::Closed, "the worker ended, or was resumed, before it was drained")
        })
    }

    /// Stops the worker: it claims nothing new, waits for handlers for as long as the stop budget allows, then cancels
    /// the others and releases their messages.
    pub async fn stop(mut self) -> Result<WorkerSummary, Error> {
        // If the worker has ended already, its result is returned below.
        let _ = self.commands.send(Command::Stop).await;
        self.wait().await
    }

    /// Waits until the worker ends by itself, which happens only if the store is closed or broken. Cancel-safe: the
    /// worker can be stopped afterwards. Must not be called again after it has returned.
    pub async fn wait(&mut self) -> Result<WorkerSummary, Error> {
        let ended = (&mut self.task).await;
        ended.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the worker's task ended unexpectedly").with_source(error)
        })?
    }
}
