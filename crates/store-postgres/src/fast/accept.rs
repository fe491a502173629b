//! Taking in: fresh keys with one statement, everything else on the slow path.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Bound, Divergence, Error, NewMessage, Number, Receipt, Ref, State, Timestamp, Uid,
};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::codes::{TICKET, key_hash, moment};
use crate::fault;
use crate::hints::Effects;
use crate::locked::{LockWait, Targets};
use crate::rows::{Given, Item};
use crate::slow::{Body, Room, STEP_ITEMS_MAX, with_body};
use crate::sql::{Accept, Statement};
use crate::store::PostgresStore;

/// A message that the statement took in.
struct Inserted {
    at: Timestamp,
    number: i64,
    uid: Uuid,
}

async fn insert(
    given: &Given<'_>,
    statement: &Statement,
    now: Option<i64>,
    connection: &mut PgConnection,
) -> Result<Vec<Inserted>, sqlx::Error> {
    let rows = given.bind(statement.query().bind(now)).fetch_all(connection).await?;
    let inserted = rows.iter().map(|row| {
        Ok(Inserted { at: moment(row.try_get(0)?), number: row.try_get(1)?, uid: row.try_get(2)? })
    });
    inserted.collect()
}

impl PostgresStore {
    pub(crate) async fn take_in(
        &self,
        connection: &mut PgConnection,
        statement: &Accept,
        messages: &[NewMessage],
        effects: &mut Effects,
    ) -> Result<Vec<Accepted>, Error> {
        self.refresh_keys(connection).await?;
        let mut outcomes = Vec::with_capacity(messages.len());
        // What is new makes its lane fuller for those that come after it, so a run of items with room and a run without are
        // decided one after the other.
        while outcomes.len() < messages.len() {
            let rest = &messages[outcomes.len()..];
            let full = self.full_lanes(connection, rest).await?;
            let alike = full.iter().take_while(|place| **place == full[0]).count();
            let run = alike.min(if full[0] { STEP_ITEMS_MAX } else { fitting(rest) });
            // Once something of the call has been taken in, it has to go on to its end.
            let wait = if outcomes.is_empty() { self.wait } else { LockWait::Patient };
            if full[0] {
                let places: Vec<_> = (0..run).collect();
                let doubtful = Doubtful { messages: rest, places: &places, ticket: None, room: Room::Full };
                outcomes.extend(self.consider(connection, wait, doubtful, effects).await?);
            } else {
                outcomes.extend(self.take_in_run(connection, wait, statement, &rest[..run], effects).await?);
            }
        }
        Ok(outcomes)
    }

    async fn take_in_run(
        &self,
        connection: &mut PgConnection,
        wait: LockWait,
        statement: &Accept,
        messages: &[NewMessage],
        effects: &mut Effects,
    ) -> Result<Vec<Accepted>, Error> {
        let mut outcomes: Vec<Option<Accepted>> = vec![None; messages.len()];
        let ticket = self.insert_fresh(connection, wait, statement, messages, &mut outcomes, effects).await?;
        let rest: Vec<usize> = (0..messages.len()).filter(|place| outcomes[*place].is_none()).collect();
        if !rest.is_empty() {
            let mut considered = Vec::with_capacity(rest.len());
            for step in rest.chunks(STEP_ITEMS_MAX) {
                let wait = if considered.is_empty() { wait } else { LockWait::Patient };
                let doubtful = Doubtful { messages, places: step, ticket, room: Room::Enough };
                considered.extend(self.consider(connection, wait, doubtful, effects).await?);
            }
            for (place, outcome) in rest.into_iter().zip(considered) {
                outcomes[place] = Some(outcome);
            }
        }
        for (message, outcome) in messages.iter().zip(&outcomes) {
            match outcome {
                Some(Accepted::New { .. }) => self.hints.fullness.added(message),
                // It may have moved here from another lane.
                Some(_) if message.policy.divergence == Divergence::Replace => self.hints.fullness.forget(),
                _ => {}
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.expect("every item is considered")).collect())
    }

    /// Takes in what is new with one statement; what is not stays without an outcome. Answers the ticket that the numbers of
    /// this call come from, if something was new.
    async fn insert_fresh(
        &self,
        connection: &mut PgConnection,
        wait: LockWait,
        statement: &Accept,
        messages: &[NewMessage],
        outcomes: &mut [Option<Accepted>],
        effects: &mut Effects,
    ) -> Result<Option<i64>, Error> {
        if self.keys_are_full() {
            // Known keys are answered still.
            return Ok(None);
        }
        let mut items = Vec::with_capacity(messages.len());
        let mut by_uid = HashMap::with_capacity(messages.len());
        let mut keys = HashSet::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            let uid = Uuid::from_u128(message.uid.unwrap_or_else(|| self.next_uid()).as_u128());
            // Items about the same message depend on each other, and are decided one after another.
            if !keys.insert(&message.key) || by_uid.insert(uid, place).is_some() {
                return Ok(None);
            }
            items.push(Item { place, uid, key_hash: key_hash(&message.key) });
        }
        items.sort_unstable_by_key(|item| item.key_hash);
        let mut given = Given::default();
        for item in &items {
            given.push(&messages[item.place], item);
        }
        let inserted = insert(&given, statement.of(messages.len()), self.time(), connection).await;
        let inserted = match inserted {
            Ok(inserted) => inserted,
            // Another transaction has one of the keys: the slow path waits for it, if waiting is allowed.
            Err(error) if fault::is_locked(&error) && wait == LockWait::Patient => return Ok(None),
            Err(error) if fault::is_collision(&error) => return Ok(None),
            Err(error) => return Err(fault::told(error)),
        };
        for Inserted { at, uid, .. } in &inserted {
            let Some(place) = by_uid.get(uid) else { continue };
            let message = &messages[*place];
            outcomes[*place] = Some(new(message, Uid::from_u128(uid.as_u128()), *at));
            effects.add_new(message, *at);
        }
        Ok(inserted.first().map(|Inserted { number, .. }| number - number % TICKET))
    }

    /// Decides about some items of a call, in order.
    async fn consider(
        &self,
        connection: &mut PgConnection,
        wait: LockWait,
        Doubtful { messages, places, ticket, room }: Doubtful<'_>,
        effects: &mut Effects,
    ) -> Result<Vec<Accepted>, Error> {
        let mut targets = Targets::of_keys(places.iter().map(|place| &messages[*place].key));
        for uid in places.iter().filter_map(|place| messages[*place].uid) {
            targets.add_uid(uid);
        }
        // With a ticket, something of the call has been taken in.
        let wait = if ticket.is_some() { LockWait::Patient } else { wait };
        let decide = |machine: &mut Machine<Body>, turn: &mut Turn<'_, Body>| {
            let decide = |place: &usize| {
                let message = &messages[*place];
                if room == Room::Full && is_free(machine, turn, message) {
                    let limit = message.lane_max.map_or(0, |max| u64::from(max.get()));
                    let bound = Bound::new(Bound::LANE_MESSAGES, limit, limit);
                    return Accepted::Saturated { retry_after: RETRY_AFTER, bound };
                }
                if let Some(ticket) = ticket {
                    let number = u64::try_from(ticket).unwrap_or_default() + *place as u64 + 1;
                    machine.number_from(Number(number));
                }
                match machine.accept(turn, &with_body(message)) {
                    Accepted::Saturated { retry_after, bound } => {
                        Accepted::Saturated { retry_after, bound: self.named(bound) }
                    }
                    other => other,
                }
            };
            places.iter().map(decide).collect::<Vec<_>>()
        };
        let (accepted, events) = self.slow(wait).decide(connection, &targets, decide).await?;
        effects.add(events);
        Ok(accepted)
    }
}

/// Items of a call that one statement could not decide about.
struct Doubtful<'a> {
    /// All items of the call.
    messages: &'a [NewMessage],
    /// Which of them.
    places: &'a [usize],
    /// Their numbers come from the call's ticket, if it has one, by their places in the call.
    ticket: Option<i64>,
    /// What their lanes have.
    room: Room,
}

/// Payload bytes that one statement takes in, at most, unless a single message has more: the server takes 1 GiB, and has to hold it all.
const STATEMENT_BYTES_MAX: usize = 32 << 20;

/// How many of these messages one statement takes in.
fn fitting(messages: &[NewMessage]) -> usize {
    let sizes = messages.iter().scan(0, |sum: &mut usize, message| {
        *sum = sum.saturating_add(message.content.payload.len());
        Some(*sum)
    });
    sizes.take_while(|sum| *sum <= STATEMENT_BYTES_MAX).count().max(1)
}

/// When to come again if a lane is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whether neither its key nor its uid is known: then its lane decides.
fn is_free(machine: &mut Machine<Body>, turn: &mut Turn<'_, Body>, message: &NewMessage) -> bool {
    let by_key = machine.get(turn, &Ref::Key(message.key.clone()));
    let by_uid = message.uid.and_then(|uid| machine.get(turn, &Ref::Uid(uid)));
    by_key.is_none() && by_uid.is_none()
}

fn new(message: &NewMessage, uid: Uid, at: Timestamp) -> Accepted {
    let dedup_until = message.policy.hold.until(at, None);
    let trace = message.trace.clone();
    let receipt = Receipt { uid, accepted_at: at, dedup_until, state: State::Processing, trace };
    Accepted::New { receipt, diverged: false }
}
