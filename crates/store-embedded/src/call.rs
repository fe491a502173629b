//! One call: it waits for space, is applied under the lock, and is answered when the journal has come far enough.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use oncebox_core::limits::check_call;
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{Batch, Bound, Claim, Error, Kind};
use tokio::sync::oneshot::Receiver;

use crate::need::{CLAIM_LEAVES_BYTES, Need, SETTLEMENT_LEAVES_BYTES};
use crate::shared::{GROUP_BYTES_MAX, Goal, Life, State};
use crate::store::EmbeddedStore;
use crate::trouble::Trouble;

/// Events that time has brought and that one hold of the lock works off, at most.
const EVENTS_MAX: u32 = 4_096;

/// What a call does to the journal, and so what its answer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Writes nothing; never refused for lack of space.
    Read,
    /// Takes in something new; refused when space is short.
    Intake,
    /// Ends or changes something; may use the reserve.
    Solid,
    /// As `Solid`, and works off what time has brought by itself.
    Upkeep,
    /// Grants or extends leases: written before the answer, on disk soon after.
    Light,
}

/// What is known of a call before it is made.
pub(crate) struct Call {
    pub(crate) items: usize,
    pub(crate) weight: Weight,
    pub(crate) need: Need,
    /// The longest lease that it grants.
    pub(crate) lease: Duration,
}

impl Call {
    pub(crate) fn read(items: usize) -> Self {
        Self { items, weight: Weight::Read, need: Need::default(), lease: Duration::ZERO }
    }

    /// Takes in something of so many bytes, and leaves the reserve of the store.
    pub(crate) fn intake(items: usize, bytes: u64, reserve: u64) -> Self {
        let need = Need { bytes, claimed: 0, name_bytes: 0, leaves: CLAIM_LEAVES_BYTES + reserve };
        Self { items, weight: Weight::Intake, need, lease: Duration::ZERO }
    }

    /// Ends or changes something.
    pub(crate) fn solid(items: usize, bytes: u64) -> Self {
        let need = Need { bytes, claimed: 0, name_bytes: 0, leaves: SETTLEMENT_LEAVES_BYTES };
        Self { items, weight: Weight::Solid, need, lease: Duration::ZERO }
    }
}

/// Why a call was not run.
pub(crate) enum Refused {
    /// There is no space in the journal, and it cannot grow.
    NoSpace {
        trouble: Trouble,
        bound: Bound,
    },
    Failed(Error),
}

/// Whether a call may run now.
enum Admission {
    /// With so many claimed messages at most.
    Run { claimed: u32 },
    /// Not before this.
    Wait(Receiver<()>),
}

impl EmbeddedStore {
    /// Runs one call on the machine and waits for the journal. What is run gets the number of messages that it may claim: fewer than
    /// it asked for if the journal cannot grow and has no space for more.
    pub(crate) async fn call<T>(
        &self,
        call: &Call,
        run: impl FnOnce(&mut Machine, &mut Turn<'_>, u32) -> T + Send,
    ) -> Result<T, Refused> {
        check_call(call.items).map_err(Refused::Failed)?;
        let (answer, goal) = loop {
            let pause = {
                let mut state = self.shared.lock();
                self.check_open(&state)?;
                let current = call.weight == Weight::Upkeep || self.catch_up(&mut state);
                match current.then(|| self.admit(&mut state, call)).transpose()? {
                    Some(Admission::Run { claimed }) => {
                        break self.apply(&mut state, call, |machine, turn| run(machine, turn, claimed));
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
        self.shared.wait(goal).await.map_err(Refused::Failed)?;
        Ok(answer)
    }

    fn check_open(&self, state: &State) -> Result<(), Refused> {
        if state.life != Life::Open {
            return Err(Refused::Failed(Error::new(Kind::Closed, "the store is closed: open it again")));
        }
        self.shared.failure().map_or(Ok(()), |failure| Err(Refused::Failed(failure)))
    }

    /// Whether a call may run now, and how much it may claim.
    fn admit(&self, state: &mut State, call: &Call) -> Result<Admission, Refused> {
        let most = call.need.most();
        let enough = state.room >= most;
        if !enough {
            state.room_wanted = state.room_wanted.max(most);
            state.prepared = true;
            self.shared.call_syncer(state);
        }
        let claimed = match &state.trouble {
            None => enough.then_some(call.need.claimed),
            Some(trouble) => {
                let fitting = call.need.fit(state.room, state.engine.machine.leased());
                // Work waits for space that is about to come from the journal itself; intake is refused at once.
                let waits = state.relief && call.weight != Weight::Intake;
                if fitting.is_none() && !waits {
                    return Err(Refused::NoSpace { trouble: trouble.clone(), bound: disk_bound(state) });
                }
                fitting
            }
        };
        match claimed {
            Some(claimed) if state.engine.group.bytes.0.len() < GROUP_BYTES_MAX => {
                Ok(Admission::Run { claimed })
            }
            _ => Ok(Admission::Wait(self.shared.block())),
        }
    }

    /// Works off a piece of what time has brought. Answers whether that was all.
    fn catch_up(&self, state: &mut State) -> bool {
        let before = state.engine.group.timed;
        let all = state.engine.catch_up(EVENTS_MAX);
        if state.engine.group.timed && !before {
            state.solid = state.group_number;
            self.shared.call_syncer(state);
        }
        all
    }

    fn apply<T>(
        &self,
        state: &mut State,
        call: &Call,
        run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T,
    ) -> (T, Goal) {
        let (before, timed) = (state.engine.group.bytes.0.len(), state.engine.group.timed);
        let raised = state.engine.note_lease(call.lease);
        let answer = state.engine.run(run);
        state.engine.machine.take_woken(|namespace, topic| self.bell.ring(namespace, topic));
        let written = state.engine.group.bytes.0.len() - before;
        state.room = state.room.saturating_sub(written as u64 + written as u64 / 64);
        let timed = state.engine.group.timed && !timed;
        if timed || (written > 0 && (call.weight != Weight::Light || raised)) {
            state.solid = state.group_number;
        }
        if written > 0 || timed {
            state.calls += 1;
            state.comeback.call();
            self.shared.call_syncer(state);
        }
        // Whoever wrote nothing has still read what the group holds.
        let nothing_new = state.engine.group.is_empty();
        let goal = Goal {
            written: state.group_number - u64::from(nothing_new),
            durable: state.solid,
            wrote: written > 0 || timed,
        };
        (answer, goal)
    }
}

/// The claims, cut so that they take so many messages together: each at least one as long as there are any, the first ones all that
/// they ask for. None for a claim that may take nothing.
pub(crate) fn deal(claims: &[Claim], mut messages: u32) -> impl Iterator<Item = Option<Cow<'_, Claim>>> {
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

/// A refusal where no outcome says it.
pub(crate) fn refused(refused: Refused) -> Error {
    match refused {
        Refused::Failed(error) => error,
        Refused::NoSpace { trouble, .. } => Error::new(Kind::Unavailable, trouble.text),
    }
}

/// Every item's outcome, or that the disk has no space for any of them.
pub(crate) fn or_full<T: Clone>(
    outcome: Result<Vec<T>, Refused>,
    items: usize,
    full: impl Fn(Bound) -> T,
) -> Result<Vec<T>, Error> {
    match outcome {
        Ok(outcomes) => Ok(outcomes),
        Err(Refused::NoSpace { trouble, bound }) if trouble.full => Ok(vec![full(bound); items]),
        Err(other) => Err(refused(other)),
    }
}

/// What the journal has on disk while it cannot have more.
pub(crate) fn disk_bound(state: &State) -> Bound {
    Bound::new(Bound::DISK_BYTES, state.disk_bytes, state.disk_bytes)
}

/// Lets others have a turn.
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

    use super::deal;

    #[test]
    fn messages_are_dealt_so_that_every_claim_gets_one_if_it_can() {
        let claim = |batch| {
            let lease = Span::lease(Duration::from_secs(1)).unwrap();
            Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
        };
        let claims = [claim(5), claim(3), claim(4)];
        let dealt = |messages| {
            let shares = deal(&claims, messages).map(|claim| claim.map_or(0, |claim| claim.batch.get()));
            shares.collect::<Vec<_>>()
        };
        assert_eq!(dealt(12), [5, 3, 4]);
        assert_eq!(dealt(10), [5, 3, 2]);
        assert_eq!(dealt(7), [5, 1, 1]);
        assert_eq!(dealt(4), [2, 1, 1]);
        assert_eq!(dealt(2), [1, 1, 0]);
        assert_eq!(dealt(1), [1, 0, 0]);
        assert_eq!(dealt(0), [0, 0, 0]);
    }
}
