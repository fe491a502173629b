//! Tasks that run at the same time.

use std::sync::{Arc, Barrier};

use tokio::runtime::Handle;

use super::Checked;

/// Runs tasks at once, each on a thread of its own, and gives their answers in the order of the tasks.
///
/// The threads lend themselves to the runtime of the case, so that whatever the store started there keeps running.
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
    let mut answers = Vec::with_capacity(threads.len());
    for thread in threads {
        answers.push(thread.await??);
    }
    Ok(answers)
}
