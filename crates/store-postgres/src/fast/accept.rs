//! Accepting messages: new keys with one statement, everything else on the slow path.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Accepted, Bound, Divergence, Error, MessageRef, MessageState, MessageSummary, NewMessage, Number,
    Timestamp, Uid,
};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::codes::{ID_BLOCK_SIZE, key_hash, timestamp};
use crate::db_error;
use crate::hints::Effects;
use crate::rows::{Item, MessageInput};
use crate::sql::{Accept, Statement};
use crate::store::PostgresStore;
use oncebox_store_rows::{Admission, Body, LockWait, STEP_ITEMS_MAX, Targets, with_body};

/// A message that the statement inserted.
struct Inserted {
    at: Timestamp,
    number: i64,
    uid: Uuid,
}

async fn insert(
    input: &MessageInput<'_>,
    statement: &Statement,
    now: Option<i64>,
    connection: &mut PgConnection,
) -> Result<Vec<Inserted>, sqlx::Error> {
    let rows = input.bind(statement.query().bind(now)).fetch_all(connection).await?;
    let inserted = rows.iter().map(|row| {
        Ok(Inserted { at: timestamp(row.try_get(0)?), number: row.try_get(1)?, uid: row.try_get(2)? })
    });
    inserted.collect()
}

impl PostgresStore {
    pub(crate) async fn accept_on(
        &self,
        connection: &mut PgConnection,
        statement: &Accept,
        messages: &[NewMessage],
        effects: &mut Effects,
    ) -> Result<Vec<Accepted>, Error> {
        self.refresh_keys(connection).await?;
        let mut outcomes = Vec::with_capacity(messages.len());
        // Each new message makes its lane fuller for the following ones, so a run of items whose lanes have capacity
        // and a run of items whose lanes are full are decided one after the other.
        while outcomes.len() < messages.len() {
            let rest = &messages[outcomes.len()..];
            let full = self.full_lanes(connection, rest).await?;
            let same = full.iter().take_while(|is_full| **is_full == full[0]).count();
            let run = same.min(fitting(rest)).min(if full[0] { STEP_ITEMS_MAX } else { usize::MAX });
            // Once part of the call has been accepted, the call must run to completion.
            let lock_wait = if outcomes.is_empty() { self.lock_wait } else { LockWait::Block };
            if full[0] {
                let indexes: Vec<_> = (0..run).collect();
                let undecided = Undecided {
                    messages: rest,
                    indexes: &indexes,
                    id_block: None,
                    admission: Admission::Full,
                };
                outcomes.extend(self.decide_items(connection, lock_wait, undecided, effects).await?);
            } else {
                outcomes
                    .extend(self.accept_run(connection, lock_wait, statement, &rest[..run], effects).await?);
            }
        }
        Ok(outcomes)
    }

    async fn accept_run(
        &self,
        connection: &mut PgConnection,
        lock_wait: LockWait,
        statement: &Accept,
        messages: &[NewMessage],
        effects: &mut Effects,
    ) -> Result<Vec<Accepted>, Error> {
        let mut outcomes: Vec<Option<Accepted>> = vec![None; messages.len()];
        let id_block =
            self.insert_new(connection, lock_wait, statement, messages, &mut outcomes, effects).await?;
        let rest: Vec<usize> = (0..messages.len()).filter(|index| outcomes[*index].is_none()).collect();
        if !rest.is_empty() {
            let mut decided = Vec::with_capacity(rest.len());
            for step in rest.chunks(STEP_ITEMS_MAX) {
                let lock_wait = if decided.is_empty() { lock_wait } else { LockWait::Block };
                let undecided = Undecided { messages, indexes: step, id_block, admission: Admission::Open };
                decided.extend(self.decide_items(connection, lock_wait, undecided, effects).await?);
            }
            for (index, outcome) in rest.into_iter().zip(decided) {
                outcomes[index] = Some(outcome);
            }
        }
        for (message, outcome) in messages.iter().zip(&outcomes) {
            match outcome {
                Some(Accepted::New { .. }) => self.hints.depths.add(message),
                // The message may have moved here from another lane.
                Some(_) if message.policy.divergence == Divergence::Replace => self.hints.depths.clear(),
                _ => {}
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.expect("every item is decided")).collect())
    }

    /// Accepts new messages with one statement; the others get no outcome. Returns the id block that the numbers of
    /// this call come from, if there was a new message.
    async fn insert_new(
        &self,
        connection: &mut PgConnection,
        lock_wait: LockWait,
        statement: &Accept,
        messages: &[NewMessage],
        outcomes: &mut [Option<Accepted>],
        effects: &mut Effects,
    ) -> Result<Option<i64>, Error> {
        if self.hints.keys_are_full() {
            // Known keys are still answered.
            return Ok(None);
        }
        let mut items = Vec::with_capacity(messages.len());
        let mut by_uid = HashMap::with_capacity(messages.len());
        let mut keys = HashSet::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            let uid = Uuid::from_u128(message.uid.unwrap_or_else(|| self.next_uid()).as_u128());
            // Items about the same message depend on each other and are decided one after another.
            if !keys.insert(&message.key) || by_uid.insert(uid, index).is_some() {
                return Ok(None);
            }
            items.push(Item { index, uid, key_hash: key_hash(&message.key) });
        }
        items.sort_unstable_by_key(|item| item.key_hash);
        let mut input = MessageInput::default();
        for item in &items {
            input.push(&messages[item.index], item);
        }
        let inserted = insert(&input, statement.of(messages.len()), self.time(), connection).await;
        let inserted = match inserted {
            Ok(inserted) => inserted,
            // Another transaction holds one of the keys: the slow path waits for it if the call may block.
            Err(error) if db_error::is_lock_timeout(&error) && lock_wait == LockWait::Block => {
                return Ok(None);
            }
            Err(error) if db_error::is_conflict(&error) => return Ok(None),
            Err(error) => return Err(db_error::into_error(error)),
        };
        for Inserted { at, uid, .. } in &inserted {
            let Some(index) = by_uid.get(uid) else { continue };
            let message = &messages[*index];
            outcomes[*index] = Some(new(message, Uid::from_u128(uid.as_u128()), *at));
            effects.add_new(message, *at);
        }
        Ok(inserted.first().map(|Inserted { number, .. }| number - number % ID_BLOCK_SIZE))
    }

    /// Decides some items of a call, in order.
    async fn decide_items(
        &self,
        connection: &mut PgConnection,
        lock_wait: LockWait,
        Undecided { messages, indexes, id_block, admission }: Undecided<'_>,
        effects: &mut Effects,
    ) -> Result<Vec<Accepted>, Error> {
        let mut targets = Targets::of_keys(indexes.iter().map(|index| &messages[*index].key));
        for uid in indexes.iter().filter_map(|index| messages[*index].uid) {
            targets.add_uid(uid);
        }
        // With an id block, part of the call has been accepted.
        let lock_wait = if id_block.is_some() { LockWait::Block } else { lock_wait };
        let decide = |machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>| {
            let decide = |index: &usize| {
                let message = &messages[*index];
                if admission == Admission::Full && is_free(machine, context, message) {
                    let limit = message.lane_max.map_or(0, |max| u64::from(max.get()));
                    let bound = Bound::new(Bound::LANE_MESSAGES, limit, limit);
                    return Accepted::Saturated { retry_after: RETRY_AFTER, bound };
                }
                if let Some(id_block) = id_block {
                    let number = u64::try_from(id_block).unwrap_or_default() + *index as u64 + 1;
                    machine.set_next_number(Number(number));
                }
                // The caller has checked the limit on the lane.
                let message = NewMessage { lane_max: None, ..with_body(message) };
                match machine.accept(context, &message) {
                    Accepted::Saturated { retry_after, bound } => {
                        Accepted::Saturated { retry_after, bound: self.with_store_limit(bound) }
                    }
                    other => other,
                }
            };
            indexes.iter().map(decide).collect::<Vec<_>>()
        };
        self.decide_once(connection, lock_wait, &targets, decide, effects).await
    }
}

/// Items of a call that the accept statement could not decide.
struct Undecided<'a> {
    /// All items of the call.
    messages: &'a [NewMessage],
    /// The indexes of the undecided items.
    indexes: &'a [usize],
    /// If the call has an id block, the items are numbered from it, by their indexes in the call.
    id_block: Option<i64>,
    /// Whether their lanes have capacity.
    admission: Admission,
}

/// Maximum payload bytes per statement, unless a single message has more: the server's limit is 1 GiB, and it holds
/// the statement in memory.
const STATEMENT_BYTES_MAX: usize = 32 << 20;

/// How many of these messages fit into one statement.
fn fitting(messages: &[NewMessage]) -> usize {
    let sizes = messages.iter().scan(0, |sum: &mut usize, message| {
        *sum = sum.saturating_add(message.content.payload.len());
        Some(*sum)
    });
    sizes.take_while(|sum| *sum <= STATEMENT_BYTES_MAX).count().max(1)
}

/// The suggested retry delay if a lane is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whether neither the key nor the uid of a message is known: then its lane decides.
fn is_free(machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>, message: &NewMessage) -> bool {
    let by_key = machine.get(context, &MessageRef::Key(message.key.clone()));
    let by_uid = message.uid.and_then(|uid| machine.get(context, &MessageRef::Uid(uid)));
    by_key.is_none() && by_uid.is_none()
}

fn new(message: &NewMessage, uid: Uid, at: Timestamp) -> Accepted {
    let dedup_until = message.policy.hold.until(at, None);
    let trace = message.trace.clone();
    let summary =
        MessageSummary { uid, accepted_at: at, dedup_until, state: MessageState::Processing, trace };
    Accepted::New { summary, diverged: false }
}
