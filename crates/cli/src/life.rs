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

/// Ready when somebody wants this to end. Listens from this call on, not only once it is waited for.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        async {
            let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
                // Without signals it runs to its end.
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
