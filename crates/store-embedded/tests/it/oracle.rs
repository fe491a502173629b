//! An oracle: makes mixed calls on a store, tracks the confirmed state, and compares it with the store later.

use std::collections::BTreeMap;
use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Batch, Claim, Error, ErrorKind, Key, MessageRef, MessageState, Namespace, NewMessage,
    Operated, Order, Owner, Payload, Settled, Settlement, Snapshot, Span, Store, StoreExt, Topic, Verdict,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::block_on;

/// The state of a message, without its lease, which a power cut may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Absent,
    Processing { attempts: u32 },
    Done,
    Dead,
}

/// The expected state of every message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    statuses: BTreeMap<usize, Status>,
    /// The effects of the one call whose outcome is unknown.
    unknown: Vec<(usize, Status)>,
    /// The id of the next new message.
    next: usize,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It took effect.
    Confirmed,
    /// There was no space for it; it had no effect.
    Rejected,
    /// There was nothing to do.
    Idle,
    /// The store failed; it may have taken effect.
    Unknown,
}

const BATCH: u32 = 14;

fn key(id: usize) -> Key {
    Key::inbox("faults", id.to_string()).unwrap()
}

pub(crate) fn message(id: usize) -> NewMessage {
    let payload = Payload::new(vec![u8::try_from(id % 251).unwrap(); 4_000]).unwrap();
    NewMessage::new(key(id), Topic::new("topic").unwrap(), payload)
}

/// Checks that an error says what to do, and does not report a bug: either the outcome is unknown or there is no space.
pub(crate) fn check_error(error: &Error) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(!text.contains("invariant"), "{text}");
    let advice = [
        "reopen the store",
        "free some space, then retry",
        "raise the limit of open files, then retry",
        "check the disk, then retry",
    ];
    assert!(advice.iter().any(|advice| text.contains(advice)), "{text}");
}

impl Oracle {
    fn outcome(&mut self, error: Option<Error>, effects: &[(usize, Status)]) -> Outcome {
        let Some(error) = error else {
            self.statuses.extend(effects.iter().copied());
            return Outcome::Confirmed;
        };
        check_error(&error);
        if error.to_string().contains("then retry") {
            return Outcome::Rejected;
        }
        assert_eq!(self.unknown, [], "a failed store is not used again");
        self.unknown = effects.to_vec();
        Outcome::Unknown
    }

    /// Accepts a batch of new messages and one duplicate.
    pub(crate) fn accept(&mut self, store: &EmbeddedStore, count: usize) -> Outcome {
        let ids: Vec<_> = (self.next..self.next + count).collect();
        self.next += count;
        let mut messages: Vec<_> = ids.iter().map(|id| message(*id)).collect();
        messages.push(messages[0].clone());
        let mut effects: Vec<_> = ids.iter().map(|id| (*id, Status::Processing { attempts: 0 })).collect();
        match block_on(store.accept(&messages)) {
            Err(error) => self.outcome(Some(error), &effects),
            Ok(outcomes) if outcomes.iter().all(|outcome| matches!(outcome, Accepted::Saturated { .. })) => {
                for (_, status) in &mut effects {
                    *status = Status::Absent;
                }
                self.outcome(None, &effects);
                Outcome::Rejected
            }
            Ok(outcomes) => {
                let (last, new) = outcomes.split_last().unwrap();
                assert!(matches!(last, Accepted::Duplicate { diverged: false, .. }), "{last:?}");
                assert!(new.iter().all(|outcome| matches!(outcome, Accepted::New { .. })), "{new:?}");
                self.outcome(None, &effects)
            }
        }
    }

    /// Claims a batch and settles it: mostly acknowledged, some abandoned, some failed.
    pub(crate) fn work(&mut self, store: &EmbeddedStore) -> Outcome {
        let lease = Span::lease(Duration::from_secs(30)).unwrap();
        let batch = Batch::new(BATCH).unwrap();
        let claim = Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, batch);
        let deliveries = match block_on(store.claim(&claim)) {
            Ok(deliveries) => deliveries,
            Err(error) => return self.outcome(Some(error), &[]),
        };
        let (mut settlements, mut effects): (Vec<Settlement>, Vec<_>) = (Vec::new(), Vec::new());
        for delivery in &deliveries {
            let id: usize = delivery.key.id.as_str().parse().unwrap();
            assert_eq!(delivery.content, message(id).content);
            assert_eq!(self.statuses[&id], Status::Processing { attempts: delivery.attempts });
            let (verdict, status) = match (id % 7, delivery.attempts) {
                (3, 0) => {
                    let delay = Span::delay(Duration::from_millis(1)).unwrap();
                    let attempts = delivery.attempts + 1;
                    (Verdict::Abandon { delay, error: None }, Status::Processing { attempts })
                }
                (5, _) => (delivery.fail(None).verdict, Status::Dead),
                _ => (Verdict::Ack, Status::Done),
            };
            settlements.push(delivery.settle(verdict));
            effects.push((id, status));
        }
        if settlements.is_empty() {
            return Outcome::Idle;
        }
        match block_on(store.settle(&settlements)) {
            Err(error) => self.outcome(Some(error), &effects),
            Ok(outcomes) => {
                for (outcome, (id, status)) in outcomes.iter().zip(&effects) {
                    let as_expected = match status {
                        Status::Done => *outcome == Settled::Done,
                        Status::Dead => matches!(outcome, Settled::Dead { .. }),
                        _ => matches!(outcome, Settled::Retrying { .. }),
                    };
                    assert!(as_expected, "{id}: {outcome:?} instead of {status:?}");
                }
                self.outcome(None, &effects)
            }
        }
    }

    /// Redrives one dead message, cancels one that is waiting, erases one that is done.
    pub(crate) fn operate(&mut self, store: &EmbeddedStore) -> Outcome {
        let find = |wanted: fn(&Status) -> bool| {
            self.statuses.iter().rfind(|(_, status)| wanted(status)).map(|(id, _)| *id)
        };
        let chosen = [
            (find(|status| *status == Status::Dead), Action::REDRIVE),
            (find(|status| matches!(status, Status::Processing { .. })), Action::Cancel),
            (find(|status| *status == Status::Done), Action::Erase),
        ];
        let after = [Status::Processing { attempts: 0 }, Status::Dead, Status::Absent];
        let (mut orders, mut effects) = (Vec::new(), Vec::new());
        for ((id, action), status) in chosen.into_iter().zip(after) {
            let Some(id) = id else { continue };
            orders.push(Order { target: key(id).into(), action });
            effects.push((id, status));
        }
        if orders.is_empty() {
            return Outcome::Idle;
        }
        match block_on(store.operate(&orders)) {
            Err(error) => self.outcome(Some(error), &effects),
            Ok(outcomes) => {
                let changed = |outcome: &Operated| matches!(outcome, Operated::Changed(_));
                assert!(outcomes.iter().all(changed), "{outcomes:?}");
                self.outcome(None, &effects)
            }
        }
    }

    /// Compares a store with the expected state: it contains all confirmed writes, and the unknown call took effect
    /// completely or not at all. Afterwards nothing is unknown.
    pub(crate) fn reconcile(&mut self, store: &EmbeddedStore) {
        let found = self.found(store);
        if self.unknown.iter().all(|(id, after)| found[id] == *after) {
            self.statuses.extend(self.unknown.drain(..));
        }
        self.unknown.clear();
        for (id, status) in found {
            assert_eq!(status, self.status(id), "message {id}");
        }
    }

    /// The state of every message in a store.
    pub(crate) fn found(&self, store: &EmbeddedStore) -> BTreeMap<usize, Status> {
        let refs: Vec<MessageRef> = (0..self.next).map(|id| key(id).into()).collect();
        let found = block_on(store.get(&refs)).unwrap();
        found.iter().map(|found| found.as_ref().map_or(Status::Absent, status)).enumerate().collect()
    }

    /// The expected state of a message.
    pub(crate) fn status(&self, id: usize) -> Status {
        self.statuses.get(&id).copied().unwrap_or(Status::Absent)
    }
}

fn status(found: &Snapshot) -> Status {
    let id: usize = found.key.id.as_str().parse().unwrap();
    match found.state {
        MessageState::Done => Status::Done,
        MessageState::Dead => Status::Dead,
        MessageState::Processing => {
            assert_eq!(found.content, Some(message(id).content));
            Status::Processing { attempts: found.attempts }
        }
        other => panic!("message {id} is {other:?}"),
    }
}
