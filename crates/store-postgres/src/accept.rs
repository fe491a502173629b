//! Taking in: fresh keys with one statement, everything else at the desk.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use oncebox_core::{
    Accepted, CallerHash, Divergence, Error, Namespace, NewMessage, Number, Partition, Receipt, Ref, State,
    Timestamp, Uid,
};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::codes::{DIVERGENCES, TICKET, code, key_hash, millis, moment, namespace, stamp};
use crate::desk::{Desk, Wanted};
use crate::ears::Heard;
use crate::fault;
use crate::image::{attributes, small};
use crate::sql::{Accept, Statement};
use crate::store::PostgresStore;

/// One array per column, borrowed from the messages.
#[derive(Default)]
struct Columns<'a> {
    /// In the call, from 1.
    place: Vec<i64>,
    uid: Vec<Uuid>,
    namespace: Vec<i16>,
    key_hash: Vec<Uuid>,
    source: Vec<&'a str>,
    id: Vec<&'a str>,
    topic: Vec<&'a str>,
    shard: Vec<i32>,
    partition: Vec<Option<&'a str>>,
    payload: Vec<&'a [u8]>,
    attributes: Vec<Option<String>>,
    due: Vec<Option<i64>>,
    expires: Vec<Option<i64>>,
    fingerprint: Vec<&'a [u8]>,
    hash_name: Vec<Option<&'a str>>,
    hash: Vec<Option<&'a [u8]>>,
    correlation: Vec<Option<&'a str>>,
    causation: Vec<Option<&'a str>>,
    tenant: Vec<Option<&'a str>>,
    attempts_max: Vec<Option<i32>>,
    window_ms: Vec<i64>,
    keep_ms: Vec<Option<i64>>,
    divergence: Vec<i16>,
    keep_finished: Vec<bool>,
}

/// A message that is to be taken in.
struct Item {
    place: usize,
    uid: Uuid,
    key_hash: Uuid,
}

/// A message that the statement took in.
struct Inserted {
    at: Timestamp,
    number: i64,
    uid: Uuid,
}

impl<'a> Columns<'a> {
    fn push(&mut self, message: &'a NewMessage, item: &Item) {
        let NewMessage { key, content, fingerprint, hash, trace, policy, .. } = message;
        self.place.push(i64::try_from(item.place).unwrap_or(i64::MAX) + 1);
        self.uid.push(item.uid);
        self.namespace.push(namespace(key.namespace));
        self.key_hash.push(item.key_hash);
        self.source.push(key.source.as_str());
        self.id.push(key.id.as_str());
        self.topic.push(content.topic.as_str());
        self.shard.push(i32::from(content.shard.0));
        self.partition.push(content.partition.as_ref().map(Partition::as_str));
        self.payload.push(content.payload.as_bytes());
        self.attributes.push(attributes(&content.attributes));
        self.due.push(content.due.map(stamp));
        self.expires.push(content.expires.map(stamp));
        self.fingerprint.push(fingerprint.as_bytes());
        self.hash_name.push(hash.as_ref().map(CallerHash::algorithm));
        self.hash.push(hash.as_ref().map(CallerHash::as_bytes));
        self.correlation.push(trace.correlation());
        self.causation.push(trace.causation());
        self.tenant.push(trace.tenant());
        self.attempts_max.push(policy.attempts_max.map(|max| small(max.get())));
        self.window_ms.push(millis(policy.hold.window));
        self.keep_ms.push(policy.hold.keep.map(millis));
        self.divergence.push(code(&DIVERGENCES, policy.divergence));
        self.keep_finished.push(policy.keep_finished);
    }

    async fn insert(
        &self,
        statement: &Statement,
        now: Option<i64>,
        connection: &mut PgConnection,
    ) -> Result<Vec<Inserted>, sqlx::Error> {
        let rows = statement
            .query()
            .bind(now)
            .bind_column(&self.place)
            .bind_column(&self.uid)
            .bind_column(&self.namespace)
            .bind_column(&self.key_hash)
            .bind_column(&self.source)
            .bind_column(&self.id)
            .bind_column(&self.topic)
            .bind_column(&self.shard)
            .bind_sparse_column(&self.partition)
            .bind_column(&self.payload)
            .bind_sparse_column(&self.attributes)
            .bind_sparse_column(&self.due)
            .bind_sparse_column(&self.expires)
            .bind_column(&self.fingerprint)
            .bind_sparse_column(&self.hash_name)
            .bind_sparse_column(&self.hash)
            .bind_sparse_column(&self.correlation)
            .bind_sparse_column(&self.causation)
            .bind_sparse_column(&self.tenant)
            .bind_sparse_column(&self.attempts_max)
            .bind_column(&self.window_ms)
            .bind_sparse_column(&self.keep_ms)
            .bind_column(&self.divergence)
            .bind_column(&self.keep_finished)
            .fetch_all(connection)
            .await?;
        let inserted = rows.iter().map(|row| {
            Ok(Inserted { at: moment(row.try_get(0)?), number: row.try_get(1)?, uid: row.try_get(2)? })
        });
        inserted.collect()
    }
}

impl PostgresStore {
    pub(crate) async fn take_in(
        &self,
        connection: &mut PgConnection,
        statement: &Accept,
        messages: &[NewMessage],
        heard: &mut Heard,
    ) -> Result<Vec<Accepted>, Error> {
        let mut outcomes = Vec::with_capacity(messages.len());
        // What is new makes its lane fuller for those that come after it, so a run of items with room and a run without are
        // decided one after the other.
        while outcomes.len() < messages.len() {
            let rest = &messages[outcomes.len()..];
            let full = self.ears.room.full(self, connection, rest).await?;
            let run = full.iter().take_while(|place| **place == full[0]).count();
            // Once something of the call has been taken in, it has to go on to its end.
            let patient = (!outcomes.is_empty()).then(|| self.with_patience(true));
            let store = patient.as_ref().unwrap_or(self);
            if full[0] {
                let places: Vec<_> = (0..run).collect();
                outcomes.extend(store.consider(connection, rest, &places, None, Room::Full, heard).await?);
            } else {
                outcomes.extend(store.take_in_run(connection, statement, &rest[..run], heard).await?);
            }
        }
        Ok(outcomes)
    }

    async fn take_in_run(
        &self,
        connection: &mut PgConnection,
        statement: &Accept,
        messages: &[NewMessage],
        heard: &mut Heard,
    ) -> Result<Vec<Accepted>, Error> {
        let mut outcomes: Vec<Option<Accepted>> = vec![None; messages.len()];
        let ticket = self.insert_fresh(connection, statement, messages, &mut outcomes, heard).await?;
        let rest: Vec<usize> = (0..messages.len()).filter(|place| outcomes[*place].is_none()).collect();
        if !rest.is_empty() {
            let considered = self.consider(connection, messages, &rest, ticket, Room::Enough, heard).await?;
            for (place, outcome) in rest.into_iter().zip(considered) {
                outcomes[place] = Some(outcome);
            }
        }
        for (message, outcome) in messages.iter().zip(&outcomes) {
            match outcome {
                Some(Accepted::New { .. }) => self.ears.room.note(message),
                // It may have moved here from another lane.
                Some(_) if message.policy.divergence == Divergence::Replace => self.ears.room.forget(),
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
        statement: &Accept,
        messages: &[NewMessage],
        outcomes: &mut [Option<Accepted>],
        heard: &mut Heard,
    ) -> Result<Option<i64>, Error> {
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
        let mut columns = Columns::default();
        for item in &items {
            columns.push(&messages[item.place], item);
        }
        let inserted = columns.insert(statement.of(messages.len()), self.time(), connection).await;
        let inserted = match inserted {
            Ok(inserted) => inserted,
            // Somebody's transaction has one of the keys: the desk waits for it, if waiting is allowed.
            Err(error) if fault::is_locked(&error) && self.is_patient() => return Ok(None),
            Err(error) if fault::is_collision(&error) => return Ok(None),
            Err(error) => return Err(fault::told(error)),
        };
        for Inserted { at, uid, .. } in &inserted {
            let Some(place) = by_uid.get(uid) else { continue };
            let message = &messages[*place];
            outcomes[*place] = Some(new(message, Uid::from_u128(uid.as_u128()), *at));
            heard.add_new(message, *at);
        }
        Ok(inserted.first().map(|Inserted { number, .. }| number - number % TICKET))
    }

    /// Decides about some items of a call, in order. Their numbers come from the call's ticket, by their places in it.
    async fn consider(
        &self,
        connection: &mut PgConnection,
        messages: &[NewMessage],
        places: &[usize],
        ticket: Option<i64>,
        room: Room,
        heard: &mut Heard,
    ) -> Result<Vec<Accepted>, Error> {
        let mut wanted = Wanted::default();
        for place in places {
            wanted.add_key(&messages[*place].key);
            if let Some(uid) = messages[*place].uid {
                wanted.add_uid(uid);
            }
        }
        // With a ticket, something of the call has been taken in.
        let desk = Desk { patient: self.is_patient() || ticket.is_some(), ..self.desk() };
        let considered = self.sit_at(&desk, connection, &wanted, heard, |machine, turn| {
            let decide = |place: &usize| {
                let message = &messages[*place];
                if room == Room::Full && is_free(machine, turn, message) {
                    return Accepted::Saturated { retry_after: RETRY_AFTER };
                }
                if let Some(ticket) = ticket {
                    let number = u64::try_from(ticket).unwrap_or_default() + *place as u64 + 1;
                    machine.number_from(Number(number));
                }
                // Its lane has been looked at already; the machine knows only what lies before it.
                machine.accept(turn, &NewMessage { lane_max: None, ..message.clone() })
            };
            places.iter().map(decide).collect::<Vec<_>>()
        });
        considered.await
    }
}

/// Whether the lanes of items have room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    Full,
}

/// When to come again if a lane is full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whether neither its key nor its uid is known: then its lane decides.
fn is_free(
    machine: &mut oncebox_core::machine::Machine,
    turn: &mut oncebox_core::machine::Turn<'_>,
    message: &NewMessage,
) -> bool {
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

/// A lane, whatever its namespace.
pub(crate) type LaneOf = (Namespace, oncebox_core::Topic, i32);

pub(crate) fn lane_of(message: &NewMessage) -> LaneOf {
    let content = &message.content;
    (message.key.namespace, content.topic.clone(), i32::from(content.shard.0))
}
