//! Concurrent tasks.

use std::sync::{Arc, Barrier};

use tokio::runtime::Handle;

use super::Checked;

/// Runs tasks concurrently, each on its own thread, and returns their outcomes in the order of the tasks.
///
/// The threads run inside the runtime of the case, so that background tasks of the store keep running.
pub(crate) async fn race<T, F>(tasks: Vec<F>) -> Checked<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Checked<T>> + Send + 'static,
{
    let start = Arc::new(Barrier::new(tasks.len()));
    let threads: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let (start, runtime) = (start.clone(), Handle::current());
            tokio::task::spawn_blocking(move || {
                start.wait();
                runtime.block_on(task)
            })
        })
        .collect();
    let mut outcomes = Vec::with_capacity(threads.len());
    for thread in threads {
        outcomes.push(thread.await??);
    }
    Ok(outcomes)
}
