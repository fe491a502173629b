//! One batch: calls that go to the store together, and the answers to their callers.

use std::iter;
use std::ops::Range;

use oncebox_core::{Error, ErrorKind, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::task;

use super::op::{BatchOp, Offset, execute_in_time};
use super::pacing::Pacing;

/// The answer that a caller waits for. If this is dropped because the store panicked or the runtime shuts down, the
/// outcome of the call is unknown.
pub(super) struct Answer<O: BatchOp>(Option<oneshot::Sender<Result<O::Output, Error>>>);

impl<O: BatchOp> Answer<O> {
    pub(super) fn new(caller: oneshot::Sender<Result<O::Output, Error>>) -> Self {
        Self(Some(caller))
    }

    fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|caller| !caller.is_closed())
    }

    pub(super) async fn caller_gone(&mut self) {
        if let Some(caller) = &mut self.0 {
            caller.closed().await;
        }
    }

    pub(super) fn send(mut self, result: Result<O::Output, Error>) {
        if let Some(caller) = self.0.take() {
            // The caller may be gone.
            _ = caller.send(result);
        }
    }
}

impl<O: BatchOp> Drop for Answer<O> {
    fn drop(&mut self) {
        if let Some(caller) = self.0.take() {
            _ = caller.send(Err(interrupted()));
        }
    }
}

/// The error of a call whose task ended before it had an outcome.
pub(super) fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, "the call was interrupted and its outcome is unknown: retry it")
}

/// A call of a batch that is blocked by a lock of another transaction. Nothing of it has happened.
pub(super) struct BlockedCall<O: BatchOp> {
    /// The task of the batch, and the place of the call in it.
    pub(super) batch: task::Id,
    pub(super) index: usize,
    pub(super) items: O::Owned,
    pub(super) answer: Answer<O>,
}

/// Makes the calls as one store call. If that fails without effect, makes them as two calls, and so on. Passes on the
/// calls that are blocked.
pub(super) async fn run<O: BatchOp>(
    store: &dyn Store,
    pacing: &Pacing,
    calls: Vec<(O::Owned, Answer<O>)>,
    blocked: mpsc::UnboundedSender<BlockedCall<O>>,
) {
    let mut batch = O::Owned::default();
    let (mut ends, mut answers) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
    for (items, answer) in calls {
        O::append(&mut batch, items);
        ends.push(O::end(&batch));
        answers.push(answer);
    }
    let mut answers = answers.into_iter();
    let (items, claims) = O::end(&batch);
    let _in_flight = pacing.start_batch(items + claims);
    let mut parts: Vec<_> = iter::once(0..ends.len()).collect();
    while let Some(part) = parts.pop() {
        let (from, to) = (start_of(&ends, part.start), start_of(&ends, part.end));
        match execute_in_time::<O>(store, O::slice(&batch, from, to)).await {
            Ok(output) => {
                let outputs = O::split(output, from, &ends[part]);
                answer_all(outputs.into_iter().map(Ok), &mut answers, pacing);
            }
            Err(error) if part.len() > 1 && had_no_effect(&error) => parts.extend(halves(part)),
            Err(error) if error.is_blocked() => {
                let Some(answer) = answers.next() else { return };
                let items = O::owned(O::slice(&batch, from, to));
                // Without the dispatcher, the call ends as interrupted.
                _ = blocked.send(BlockedCall { batch: task::id(), index: part.start, items, answer });
            }
            Err(error) => answer_all(part.map(|_| Err(error.clone())), &mut answers, pacing),
        }
    }
}

/// Answers the next callers.
fn answer_all<O: BatchOp>(
    results: impl Iterator<Item = Result<O::Output, Error>>,
    answers: &mut impl Iterator<Item = Answer<O>>,
    pacing: &Pacing,
) {
    let answered: Vec<_> = results.zip(answers).filter(|(_, answer)| answer.is_awaited()).collect();
    // Before the first of them can call again.
    pacing.calls_answered(answered.len());
    for (result, answer) in answered {
        answer.send(result);
    }
}

/// The position where the call with this index starts.
fn start_of(ends: &[Offset], call: usize) -> Offset {
    call.checked_sub(1).map_or((0, 0), |before| ends[before])
}

/// The two halves, the first one last, because parts are popped from the end.
fn halves(part: Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [middle..part.end, part.start..middle]
}

/// Whether the store changed nothing and some of the calls may succeed without the others. (A closed store is closed
/// for all.)
fn had_no_effect(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) || error.is_blocked()
}
