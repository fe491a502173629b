//! A runtime for one command, and what ends it early.

use std::future::pending;

use crate::trouble::Trouble;

/// Runs this to its end, or until somebody interrupts it. When it returns, nothing of it is left: no task, no thread, no
/// open store.
pub(crate) fn of_its_own<T>(act: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Trouble::failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            ended = act => ended,
            () = interrupted() => Err(Trouble::Interrupted),
        }
    })
}

/// Ready when somebody wants this to end.
pub(crate) async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                Ok(()) = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // Without signals it runs to its end.
        pending::<()>().await;
    }
}
