//! The async runtime of one command, and the signals that end it early.

use std::future::pending;

use crate::error::CliError;

/// Runs a command to its end, or until SIGINT or SIGTERM. When it returns, no task, thread or open store of the command
/// is left.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            result = command => result,
            () = interrupted() => Err(CliError::Interrupted),
        }
    })
}

/// Completes on SIGINT or SIGTERM. Signals count from this call on, not only from the first poll.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        async {
            let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
                // Without signal handlers, the command runs to its end.
                return pending().await;
            };
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
    }
    #[cfg(not(unix))]
    async {
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    }
}
