//! A table of messages in memory that any number of handles share, without locks: a transaction notes the version of
//! everything that it reads, and its commit fails if one of them has changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncebox_core::machine::{Capacity, Machine};
use oncebox_core::{
    Clock, Content, Key, Namespace, Partition, Payload, PayloadHandle, Snapshot, Timestamp, Uid,
};
use oncebox_store_rows::{Body, ClaimIdentity, next_timer};
use oncebox_testkit::SplitMix;
use tokio::sync::Notify;

/// A message as it is stored.
pub(crate) struct Row {
    pub(crate) message: Snapshot,
    /// When its next timer is due.
    pub(crate) timer: Option<Timestamp>,
    version: u64,
}

/// What a transaction has read: versions, and 0 for what there was not.
#[derive(Default)]
pub(crate) struct ReadVersions {
    rows: BTreeMap<Uid, u64>,
    identities: BTreeMap<ClaimIdentity, u64>,
}

/// A message to write; `None` deletes it.
pub(crate) type RowWrite = (Uid, Option<Snapshot<Body>>);

/// Something that the transaction relied on has changed.
#[derive(Debug)]
pub(crate) struct Changed;

#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) rows: BTreeMap<Uid, Row>,
    /// The messages that hold keys.
    holders: HashMap<Key, Uid>,
    identities: BTreeMap<ClaimIdentity, u64>,
    last_version: u64,
    tickets: u64,
}

pub(crate) struct Table {
    contents: Mutex<Contents>,
    /// Only its records are used.
    pub(crate) records: Mutex<Machine>,
    pub(crate) clock: Arc<dyn Clock>,
    faults: Mutex<Faults>,
    /// Keys that another transaction has locked.
    locked: Mutex<BTreeSet<Key>>,
    pub(crate) unlocked: Notify,
    /// Notified whenever a transaction starts to wait for a lock.
    pub(crate) waiting: Notify,
}

/// Conflicts without a cause.
struct Faults {
    random: SplitMix,
    percent: u64,
}

impl Table {
    pub(crate) fn new(clock: Arc<dyn Clock>, conflict_percent: u64) -> Self {
        let faults = Faults { random: SplitMix::new(7), percent: conflict_percent };
        Self {
            contents: Mutex::default(),
            records: Mutex::new(Machine::new(Capacity::default())),
            clock,
            faults: Mutex::new(faults),
            locked: Mutex::default(),
            unlocked: Notify::new(),
            waiting: Notify::new(),
        }
    }

    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a statement fails with a conflict that it does not have.
    pub(crate) fn fails(&self) -> bool {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let percent = faults.percent;
        faults.random.below(100) < percent
    }

    pub(crate) fn is_locked(&self, key: &Key) -> bool {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    pub(crate) fn set_locked(&self, key: &Key, locked: bool) {
        let mut keys = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        if locked {
            keys.insert(key.clone())
        } else {
            keys.remove(key)
        };
        drop(keys);
        self.unlocked.notify_waiters();
    }
}

impl Contents {
    pub(crate) fn holder(&self, key: &Key) -> Option<Uid> {
        self.holders.get(key).copied()
    }

    /// Reads a message and notes its version.
    pub(crate) fn read(&self, uid: Uid, versions: &mut ReadVersions) -> Option<Snapshot<Body>> {
        let row = self.rows.get(&uid);
        versions.rows.insert(uid, row.map_or(0, |row| row.version));
        row.map(|row| without_content(&row.message))
    }

    /// Reads who has leases under an identity, and notes its version.
    pub(crate) fn read_request(&self, identity: &ClaimIdentity, versions: &mut ReadVersions) -> Vec<Uid> {
        versions.identities.insert(*identity, self.identities.get(identity).copied().unwrap_or_default());
        let is_granted = |row: &&Row| {
            let grant = row.message.grant.as_ref().filter(|grant| grant.end.is_none());
            row.message.key.namespace == identity.namespace
                && grant.is_some_and(|grant| {
                    grant.request == Some(identity.request) && grant.lease.owner == identity.owner
                })
        };
        self.rows.values().filter(is_granted).map(|row| row.message.uid).collect()
    }

    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Writes everything, unless something that was read has changed.
    pub(crate) fn commit(
        &mut self,
        versions: &ReadVersions,
        writes: Vec<RowWrite>,
        now: Timestamp,
    ) -> Result<(), Changed> {
        let version = |uid: &Uid| self.rows.get(uid).map_or(0, |row| row.version);
        let identity_version = |identity| self.identities.get(identity).copied().unwrap_or_default();
        let is_same = versions.rows.iter().all(|(uid, read)| version(uid) == *read)
            && versions.identities.iter().all(|(identity, read)| identity_version(identity) == *read);
        if !is_same || !self.allows(versions, &writes) {
            return Err(Changed);
        }
        self.last_version += 1;
        for identity in versions.identities.keys() {
            self.identities.insert(*identity, self.last_version);
        }
        for (uid, message) in writes {
            self.write(uid, message, now);
        }
        Ok(())
    }

    /// The unique indexes: keys, uids, and partitions in flight.
    fn allows(&self, versions: &ReadVersions, writes: &[RowWrite]) -> bool {
        let written: BTreeSet<Uid> = writes.iter().map(|(uid, _)| *uid).collect();
        let unwritten = self.rows.values().filter(|row| !written.contains(&row.message.uid));
        let busy: BTreeSet<_> = unwritten.filter_map(|row| partition_in_flight(&row.message)).collect();
        writes.iter().filter_map(|(uid, message)| Some((uid, message.as_ref()?))).all(|(uid, message)| {
            let is_known = |uid: &Uid| versions.rows.get(uid).is_some_and(|version| *version > 0);
            let is_added = !is_known(uid);
            let holder = self.holder(&message.key).filter(|_| is_added && message.keyed);
            let is_free = holder.is_none_or(|holder| is_known(&holder));
            let partition = partition_in_flight(message);
            !(is_added && self.rows.contains_key(uid))
                && is_free
                && partition.is_none_or(|partition| !busy.contains(&partition))
        })
    }

    fn write(&mut self, uid: Uid, message: Option<Snapshot<Body>>, now: Timestamp) {
        let before = self.rows.remove(&uid);
        if let Some(before) = &before
            && self.holder(&before.message.key) == Some(uid)
        {
            self.holders.remove(&before.message.key);
        }
        let Some(message) = message else { return };
        let timer = next_timer(&message, now);
        let message = with_content(message, before.and_then(|row| row.message.content));
        if message.keyed
            && let Some(former) = self.holders.insert(message.key.clone(), uid)
            && let Some(former) = self.rows.get_mut(&former)
        {
            former.message.keyed = false;
        }
        self.rows.insert(uid, Row { message, timer, version: self.last_version });
    }
}

/// The partition that a message blocks for others.
fn partition_in_flight<P>(message: &Snapshot<P>) -> Option<(Namespace, Partition)> {
    let grant = message.grant.as_ref().filter(|grant| grant.end.is_none())?;
    Some((message.key.namespace, grant.partition.clone()?))
}

fn without_content(message: &Snapshot) -> Snapshot<Body> {
    let content = message.content.clone().map(|content| {
        let content = content.with_payload(|payload| Body::Stored { bytes: payload.bytes() });
        Content { attributes: oncebox_core::Attributes::default(), ..content }
    });
    converted(message.clone(), content)
}

/// The message with its stored content, or with the content that it brings.
fn with_content(message: Snapshot<Body>, stored: Option<Content>) -> Snapshot {
    let content = message.content.clone().map(|content| match content.payload.clone() {
        Body::New(payload) => content.with_payload(|_| payload),
        Body::Stored { .. } => {
            let stored = stored.expect("stored content is in the row");
            let attributes = stored.attributes;
            Content { attributes, ..content.with_payload(|_| stored.payload) }
        }
    });
    converted::<_, Payload>(message, content)
}

fn converted<P, Q>(message: Snapshot<P>, content: Option<Content<Q>>) -> Snapshot<Q> {
    Snapshot {
        uid: message.uid,
        number: message.number,
        key: message.key,
        keyed: message.keyed,
        state: message.state,
        dead: message.dead,
        content,
        fingerprint: message.fingerprint,
        hash: message.hash,
        trace: message.trace,
        policy: message.policy,
        accepted_at: message.accepted_at,
        last_seen_at: message.last_seen_at,
        finished_at: message.finished_at,
        retry_at: message.retry_at,
        attempts: message.attempts,
        deliveries: message.deliveries,
        redrives: message.redrives,
        last_error: message.last_error,
        grant: message.grant,
    }
}
