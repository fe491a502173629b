//! One call: it waits for journal space, runs under the lock, and returns once the journal has reached its goal.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{Batch, Bound, Claim, Error, ErrorKind, check_call};
use oncebox_system::uptime;
use tokio::sync::oneshot::Receiver;

use crate::disk_error::DiskError;
use crate::reservation::{CLAIM_HEADROOM_BYTES, Reservation, SETTLEMENT_HEADROOM_BYTES};
use crate::shared::{GROUP_BYTES_MAX, Goal, Lifecycle, State};
use crate::space::Fit;
use crate::store::EmbeddedStore;

/// Maximum number of due timer events processed under one hold of the lock.
const EVENTS_MAX: u32 = 4_096;

/// What a call writes to the journal, and therefore what it waits for before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallClass {
    /// Writes nothing; never rejected for lack of space.
    Read,
    /// Accepts something new; rejected when space is short.
    Accept,
    /// Settles or changes something; may use the reserve.
    Update,
    /// Like `Update`, but processes due timer events itself.
    Maintenance,
    /// Grants or extends leases: written before the call returns, synced soon after.
    Lease,
}

/// What is known about a call before it runs.
pub(crate) struct Call {
    pub(crate) items: usize,
    pub(crate) class: CallClass,
    pub(crate) reservation: Reservation,
    /// The longest lease that the call grants.
    pub(crate) lease: Duration,
}

impl Call {
    pub(crate) fn read(items: usize) -> Self {
        Self { items, class: CallClass::Read, reservation: Reservation::default(), lease: Duration::ZERO }
    }

    /// A call that accepts something new of at most `bytes`, without using the `reserve`.
    pub(crate) fn accept(items: usize, bytes: u64, reserve: u64) -> Self {
        let reservation =
            Reservation { bytes, claimed: 0, name_bytes: 0, headroom: CLAIM_HEADROOM_BYTES + reserve };
        Self { items, class: CallClass::Accept, reservation, lease: Duration::ZERO }
    }

    /// A call that settles or changes something.
    pub(crate) fn update(items: usize, bytes: u64) -> Self {
        let reservation =
            Reservation { bytes, claimed: 0, name_bytes: 0, headroom: SETTLEMENT_HEADROOM_BYTES };
        Self { items, class: CallClass::Update, reservation, lease: Duration::ZERO }
    }
}

/// Why a call was not run.
pub(crate) enum Rejected {
    /// The journal has no space and cannot grow.
    NoSpace {
        disk_error: DiskError,
        bound: Bound,
    },
    Failed(Error),
}

/// Whether a call may run now.
enum Admission {
    /// Yes, and it may claim at most `claimed` messages.
    Run { claimed: u32 },
    /// Not before this receiver resolves.
    Wait(Receiver<()>),
}

impl EmbeddedStore {
    /// Runs one call on the machine and waits for the journal. `run` gets the number of messages that it may claim:
    /// fewer than requested if the journal cannot grow and has no space for more.
    pub(crate) async fn call<T>(
        &self,
        call: &Call,
        run: impl FnOnce(&mut Machine, &mut CallContext<'_>, u32) -> T + Send,
    ) -> Result<T, Rejected> {
        check_call(call.items).map_err(Rejected::Failed)?;
        let (answer, goal) = loop {
            let pause = {
                let mut state = self.shared.lock();
                self.check_open(&state)?;
                let current = call.class == CallClass::Maintenance || self.catch_up(&mut state);
                match current.then(|| self.admit(&mut state, call)).transpose()? {
                    Some(Admission::Run { claimed }) => {
                        break self
                            .apply(&mut state, call, |machine, context| run(machine, context, claimed));
                    }
                    Some(Admission::Wait(unblocked)) => Some(unblocked),
                    None => None,
                }
            };
            match pause {
                Some(unblocked) => drop(unblocked.await),
                None => yield_now().await,
            }
        };
        self.shared.wait(goal).await.map_err(Rejected::Failed)?;
        Ok(answer)
    }

    fn check_open(&self, state: &State) -> Result<(), Rejected> {
        if state.lifecycle != Lifecycle::Open {
            return Err(Rejected::Failed(Error::new(
                ErrorKind::Closed,
                "the store is closed: open it again",
            )));
        }
        self.shared.failure().map_or(Ok(()), |failure| Err(Rejected::Failed(failure)))
    }

    /// Whether a call may run now, and how much it may claim.
    fn admit(&self, state: &mut State, call: &Call) -> Result<Admission, Rejected> {
        if !state.space.has(&call.reservation) {
            state.poll_allocator = true;
            self.shared.wake_syncer(state);
        }
        match state.space.fit(&call.reservation, state.engine.machine.leased()) {
            Fit::Now { claimed } if state.engine.group.bytes.0.len() < GROUP_BYTES_MAX => {
                Ok(Admission::Run { claimed })
            }
            Fit::Now { .. } => Ok(Admission::Wait(self.shared.block())),
            Fit::WhenGrown => Ok(self.wait_for(state, &call.reservation)),
            // Work waits for space that the journal is about to reclaim; accepting calls are rejected at once.
            Fit::WhenReclaimed(_) if call.class != CallClass::Accept => {
                Ok(self.wait_for(state, &call.reservation))
            }
            Fit::WhenReclaimed(disk_error) | Fit::Never(disk_error) => {
                Err(Rejected::NoSpace { disk_error: disk_error.clone(), bound: state.space.bound() })
            }
        }
    }

    /// Waits until there is more space, and asks for it. Only callers that wait ask: nobody takes back what a rejected
    /// one has asked for.
    fn wait_for(&self, state: &mut State, reservation: &Reservation) -> Admission {
        state.space.want(reservation.bytes_max());
        Admission::Wait(self.shared.block())
    }

    /// Processes up to [`EVENTS_MAX`] due timer events. Returns whether none are left.
    fn catch_up(&self, state: &mut State) -> bool {
        let before = state.engine.group.has_timer_effects;
        let all = state.engine.catch_up(EVENTS_MAX);
        if state.engine.group.has_timer_effects && !before {
            state.sync_target = state.group_number;
            self.shared.wake_syncer(state);
        }
        all
    }

    fn apply<T>(
        &self,
        state: &mut State,
        call: &Call,
        run: impl FnOnce(&mut Machine, &mut CallContext<'_>) -> T,
    ) -> (T, Goal) {
        let (before, had_timer_effects) =
            (state.engine.group.bytes.0.len(), state.engine.group.has_timer_effects);
        let raised = state.engine.note_lease(call.lease);
        let answer = state.engine.run(run);
        state.engine.machine.take_wakeups(|namespace, topic| self.notifier.notify(namespace, topic));
        let written = state.engine.group.bytes.0.len() - before;
        state.space.use_bytes(written);
        let new_timer_effects = state.engine.group.has_timer_effects && !had_timer_effects;
        if new_timer_effects || (written > 0 && (call.class != CallClass::Lease || raised)) {
            state.sync_target = state.group_number;
        }
        if written > 0 || new_timer_effects {
            state.commit_delay.call(uptime);
            self.shared.wake_syncer(state);
        }
        // A call that wrote nothing may still have read what the current group holds.
        let nothing_new = state.engine.group.is_empty();
        let goal = Goal {
            written: state.group_number - u64::from(nothing_new),
            durable: state.sync_target,
            wrote: written > 0 || new_timer_effects,
        };
        (answer, goal)
    }
}

/// The claims with their batches reduced to `messages` in total: earlier claims keep their batch as far as every later
/// one can still get one message. `None` for a claim that gets no message.
pub(crate) fn limit_claims(
    claims: &[Claim],
    mut messages: u32,
) -> impl Iterator<Item = Option<Cow<'_, Claim>>> {
    let later = (0..u32::try_from(claims.len()).unwrap_or(u32::MAX)).rev();
    claims.iter().zip(later).map(move |(claim, later)| {
        let share = claim.batch.get().min(messages.saturating_sub(later).max(messages.min(1)));
        messages -= share;
        if share == claim.batch.get() {
            return Some(Cow::Borrowed(claim));
        }
        Batch::new(share).ok().map(|batch| Cow::Owned(Claim { batch, ..claim.clone() }))
    })
}

/// The error for a rejected call whose outcomes have no variant for it.
pub(crate) fn into_error(into_error: Rejected) -> Error {
    match into_error {
        Rejected::Failed(error) => error,
        Rejected::NoSpace { disk_error, .. } => Error::new(ErrorKind::Unavailable, disk_error.text),
    }
}

/// The outcome of every item, or `full` for each of them if the disk is full.
pub(crate) fn or_saturated<T: Clone>(
    outcome: Result<Vec<T>, Rejected>,
    items: usize,
    full: impl Fn(Bound) -> T,
) -> Result<Vec<T>, Error> {
    match outcome {
        Ok(outcomes) => Ok(outcomes),
        Err(Rejected::NoSpace { disk_error, bound }) if disk_error.full => Ok(vec![full(bound); items]),
        Err(other) => Err(into_error(other)),
    }
}

/// Yields to other tasks once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_core::{Batch, Claim, Namespace, Owner, Span};

    use super::limit_claims;

    #[test]
    fn limited_claims_each_get_one_message_if_possible() {
        let claim = |batch| {
            let lease = Span::lease(Duration::from_secs(1)).unwrap();
            Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
        };
        let claims = [claim(5), claim(3), claim(4)];
        let limited = |messages| {
            let shares =
                limit_claims(&claims, messages).map(|claim| claim.map_or(0, |claim| claim.batch.get()));
            shares.collect::<Vec<_>>()
        };
        assert_eq!(limited(12), [5, 3, 4]);
        assert_eq!(limited(10), [5, 3, 2]);
        assert_eq!(limited(7), [5, 1, 1]);
        assert_eq!(limited(4), [2, 1, 1]);
        assert_eq!(limited(2), [1, 1, 0]);
        assert_eq!(limited(1), [1, 0, 0]);
        assert_eq!(limited(0), [0, 0, 0]);
    }
}
