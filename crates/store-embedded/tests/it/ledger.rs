//! A mixed piece of work on a store, and a ledger of what was answered, to hold against what is found later.

use std::collections::BTreeMap;
use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Batch, Claim, Error, Key, Kind, Namespace, NewMessage, Operated, Order, Owner, Payload,
    Ref, Settled, Settlement, Snapshot, Span, State, Store, StoreExt, Topic, Verdict,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::block_on;

/// Where a message stands, leases aside: those may go with the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Absent,
    Processing { attempts: u32 },
    Done,
    Dead,
}

/// What is known about every message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    places: BTreeMap<usize, Place>,
    /// What the one call whose outcome is unknown does if it happened.
    unknown: Vec<(usize, Place)>,
    /// The id of the next new message.
    next: usize,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// It happened.
    Answered,
    /// There was no room for it; nothing happened.
    Refused,
    /// There was nothing to do.
    Idle,
    /// The store has failed; it may have happened.
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

/// Every error says that the outcome is unknown or that there is no room, and what to do; none tells of a bug.
pub(crate) fn check_error(error: &Error) {
    let text = error.to_string();
    assert_eq!(error.kind(), Kind::Unavailable, "{text}");
    assert!(!text.contains("invariant"), "{text}");
    let advice = [
        "open the store again",
        "make room, then try again",
        "raise the limit of open files, then try again",
        "see to the disk, then try again",
    ];
    assert!(advice.iter().any(|advice| text.contains(advice)), "{text}");
}

impl Ledger {
    fn course(&mut self, error: Option<Error>, effects: &[(usize, Place)]) -> Course {
        let Some(error) = error else {
            self.places.extend(effects.iter().copied());
            return Course::Answered;
        };
        check_error(&error);
        if error.to_string().contains("then try again") {
            return Course::Refused;
        }
        assert_eq!(self.unknown, [], "a store that has failed is not asked again");
        self.unknown = effects.to_vec();
        Course::Unknown
    }

    /// Accepts a batch of new messages, and one that came before.
    pub(crate) fn accept(&mut self, store: &EmbeddedStore, count: usize) -> Course {
        let ids: Vec<_> = (self.next..self.next + count).collect();
        self.next += count;
        let mut messages: Vec<_> = ids.iter().map(|id| message(*id)).collect();
        messages.push(messages[0].clone());
        let mut effects: Vec<_> = ids.iter().map(|id| (*id, Place::Processing { attempts: 0 })).collect();
        match block_on(store.accept(&messages)) {
            Err(error) => self.course(Some(error), &effects),
            Ok(outcomes) if outcomes.iter().all(|outcome| matches!(outcome, Accepted::Saturated { .. })) => {
                for (_, place) in &mut effects {
                    *place = Place::Absent;
                }
                self.course(None, &effects);
                Course::Refused
            }
            Ok(outcomes) => {
                let (last, new) = outcomes.split_last().unwrap();
                assert!(matches!(last, Accepted::Duplicate { diverged: false, .. }), "{last:?}");
                assert!(new.iter().all(|outcome| matches!(outcome, Accepted::New { .. })), "{new:?}");
                self.course(None, &effects)
            }
        }
    }

    /// Claims a batch and settles it: mostly done, some abandoned, some failed.
    pub(crate) fn work(&mut self, store: &EmbeddedStore) -> Course {
        let lease = Span::lease(Duration::from_secs(30)).unwrap();
        let batch = Batch::new(BATCH).unwrap();
        let claim = Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, batch);
        let deliveries = match block_on(store.claim(&claim)) {
            Ok(deliveries) => deliveries,
            Err(error) => return self.course(Some(error), &[]),
        };
        let (mut settlements, mut effects): (Vec<Settlement>, Vec<_>) = (Vec::new(), Vec::new());
        for delivery in &deliveries {
            let id: usize = delivery.key.id.as_str().parse().unwrap();
            assert_eq!(delivery.content, message(id).content);
            assert_eq!(self.places[&id], Place::Processing { attempts: delivery.attempts });
            let (verdict, place) = match (id % 7, delivery.attempts) {
                (3, 0) => {
                    let delay = Span::delay(Duration::from_millis(1)).unwrap();
                    let attempts = delivery.attempts + 1;
                    (Verdict::Abandon { delay, error: None }, Place::Processing { attempts })
                }
                (5, _) => (delivery.fail(None).verdict, Place::Dead),
                _ => (Verdict::Ack, Place::Done),
            };
            settlements.push(delivery.settle(verdict));
            effects.push((id, place));
        }
        if settlements.is_empty() {
            return Course::Idle;
        }
        match block_on(store.settle(&settlements)) {
            Err(error) => self.course(Some(error), &effects),
            Ok(outcomes) => {
                for (outcome, (id, place)) in outcomes.iter().zip(&effects) {
                    let as_expected = match place {
                        Place::Done => *outcome == Settled::Done,
                        Place::Dead => matches!(outcome, Settled::Dead { .. }),
                        _ => matches!(outcome, Settled::Retrying { .. }),
                    };
                    assert!(as_expected, "{id}: {outcome:?} instead of {place:?}");
                }
                self.course(None, &effects)
            }
        }
    }

    /// Redrives one dead message, cancels one that waits, erases one that is done.
    pub(crate) fn operate(&mut self, store: &EmbeddedStore) -> Course {
        let find = |wanted: fn(&Place) -> bool| {
            self.places.iter().rfind(|(_, place)| wanted(place)).map(|(id, _)| *id)
        };
        let chosen = [
            (find(|place| *place == Place::Dead), Action::REDRIVE),
            (find(|place| matches!(place, Place::Processing { .. })), Action::Cancel),
            (find(|place| *place == Place::Done), Action::Erase),
        ];
        let after = [Place::Processing { attempts: 0 }, Place::Dead, Place::Absent];
        let (mut orders, mut effects) = (Vec::new(), Vec::new());
        for ((id, action), place) in chosen.into_iter().zip(after) {
            let Some(id) = id else { continue };
            orders.push(Order { target: key(id).into(), action });
            effects.push((id, place));
        }
        if orders.is_empty() {
            return Course::Idle;
        }
        match block_on(store.operate(&orders)) {
            Err(error) => self.course(Some(error), &effects),
            Ok(outcomes) => {
                let changed = |outcome: &Operated| matches!(outcome, Operated::Changed(_));
                assert!(outcomes.iter().all(changed), "{outcomes:?}");
                self.course(None, &effects)
            }
        }
    }

    /// Holds the ledger against a store: everything answered is there, the unknown call happened whole or not at all.
    /// From then on what was unknown is known.
    pub(crate) fn settle_against(&mut self, store: &EmbeddedStore) {
        let found = self.found(store);
        if self.unknown.iter().all(|(id, after)| found[id] == *after) {
            self.places.extend(self.unknown.drain(..));
        }
        self.unknown.clear();
        for (id, place) in found {
            assert_eq!(place, self.place(id), "message {id}");
        }
    }

    /// Where a store has the messages that there ever were.
    pub(crate) fn found(&self, store: &EmbeddedStore) -> BTreeMap<usize, Place> {
        let refs: Vec<Ref> = (0..self.next).map(|id| key(id).into()).collect();
        let found = block_on(store.get(&refs)).unwrap();
        found.iter().map(|found| found.as_ref().map_or(Place::Absent, place)).enumerate().collect()
    }

    /// Where a message stands as far as is known.
    pub(crate) fn place(&self, id: usize) -> Place {
        self.places.get(&id).copied().unwrap_or(Place::Absent)
    }
}

fn place(found: &Snapshot) -> Place {
    let id: usize = found.key.id.as_str().parse().unwrap();
    match found.state {
        State::Done => Place::Done,
        State::Dead => Place::Dead,
        State::Processing => {
            assert_eq!(found.content, Some(message(id).content));
            Place::Processing { attempts: found.attempts }
        }
        other => panic!("message {id} is {other:?}"),
    }
}
