//! Properties of the records.

use std::time::Duration;

use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::{REMOVALS_MAX, RecordChange, RecordJournal, RecordTable};
use crate::bound::Bound;
use crate::port::{Direction, PageSize, RecordOp, RecordOutcome, WriteCondition};
use crate::record::{Record, RecordKind, RecordValue, RecordVersion, WhenFull};
use crate::text::RecordId;
use crate::time::{Span, Timestamp};

const STATE: RecordKind = RecordKind::new("state", 3, WhenFull::Refuse);
const LOG: RecordKind = RecordKind::new("log", 3, WhenFull::DropOldest);

/// The changes as they would be in a journal.
#[derive(Default)]
struct Changes(Vec<(String, Result<Record, RecordVersion>)>);

impl RecordJournal for Changes {
    fn record_change(&mut self, kind: &str, change: RecordChange<'_>) {
        let change = match change {
            RecordChange::Written(record) => Ok(record.clone()),
            RecordChange::Removed(version) => Err(version),
        };
        self.0.push((kind.to_owned(), change));
    }
}

impl Changes {
    fn replay(&self) -> RecordTable {
        let mut table = RecordTable::default();
        for (kind, change) in &self.0 {
            let change =
                change.as_ref().map_or_else(|version| RecordChange::Removed(*version), RecordChange::Written);
            table.replay(kind, change);
        }
        table
    }
}

fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

fn put(kind: RecordKind, name: &str, condition: WriteCondition) -> RecordOp {
    RecordOp::Put {
        kind,
        id: id(name),
        value: RecordValue::new(name.to_owned()).unwrap(),
        condition,
        keep: None,
    }
}

fn put_for(kind: RecordKind, name: &str, millis: u64) -> RecordOp {
    let keep = Some(Span::delay(Duration::from_millis(millis)).unwrap());
    RecordOp::Put {
        kind,
        id: id(name),
        value: RecordValue::default(),
        condition: WriteCondition::Always,
        keep,
    }
}

fn list(kind: RecordKind, direction: Direction, after: Option<&str>, size: u32) -> RecordOp {
    RecordOp::List { kind, direction, after: after.map(id), size: PageSize::new(size).unwrap() }
}

fn ids(outcome: &RecordOutcome) -> Vec<&str> {
    let RecordOutcome::Listed(records) = outcome else { panic!("a listing: {outcome:?}") };
    records.iter().map(|record| record.id.as_str()).collect()
}

struct World {
    table: RecordTable,
    journal: Changes,
    now: u64,
}

impl World {
    fn new() -> Self {
        Self { table: RecordTable::default(), journal: Changes::default(), now: 1_000 }
    }

    fn run(&mut self, op: &RecordOp) -> RecordOutcome {
        self.table.run(Timestamp::from_millis(self.now), op, &mut self.journal)
    }

    fn ids(&mut self, kind: RecordKind) -> Vec<String> {
        let listed = self.run(&list(kind, Direction::OldestFirst, None, 100));
        ids(&listed).into_iter().map(str::to_owned).collect()
    }
}

fn written(version: u64) -> RecordOutcome {
    RecordOutcome::Written(RecordVersion(version))
}

#[test]
fn a_write_needs_the_version_that_it_expects() {
    let mut world = World::new();
    let expecting = |version| put(STATE, "a", WriteCondition::Version(RecordVersion(version)));
    assert_eq!(world.run(&expecting(1)), RecordOutcome::Conflict(None));
    assert_eq!(world.run(&put(STATE, "a", WriteCondition::Absent)), written(1));
    let RecordOutcome::Conflict(Some(current)) = world.run(&put(STATE, "a", WriteCondition::Absent)) else {
        panic!("it is there")
    };
    assert_eq!((current.version, current.value.as_bytes()), (RecordVersion(1), &b"a"[..]));
    assert_eq!(world.run(&expecting(1)), written(2));
    assert!(matches!(world.run(&expecting(1)), RecordOutcome::Conflict(Some(_))));
    assert_eq!(world.run(&put(STATE, "a", WriteCondition::Always)), written(3));
    assert_eq!(world.run(&put(LOG, "a", WriteCondition::Absent)), written(1), "kinds are independent");
}

#[test]
fn a_version_is_not_used_again_after_a_delete() {
    let mut world = World::new();
    world.run(&put(STATE, "a", WriteCondition::Absent));
    let delete = |version| RecordOp::Delete { kind: STATE, id: id("a"), version };
    assert!(matches!(world.run(&delete(Some(RecordVersion(9)))), RecordOutcome::Conflict(Some(_))));
    assert_eq!(world.run(&delete(Some(RecordVersion(1)))), RecordOutcome::Deleted(true));
    assert_eq!(world.run(&delete(None)), RecordOutcome::Deleted(false));
    assert_eq!(world.run(&put(STATE, "a", WriteCondition::Absent)), written(2));
    world.run(&delete(None));
    // A compacted journal has no trace of the record any more.
    let mut compacted = RecordTable::default();
    for (kind, version) in world.table.last_versions() {
        compacted.restore_last_version(kind, version);
    }
    world.table = compacted;
    assert_eq!(world.run(&put(STATE, "a", WriteCondition::Absent)), written(3));
}

#[test]
fn a_record_is_gone_at_the_moment_it_expires() {
    let mut world = World::new();
    world.run(&put_for(STATE, "a", 10));
    world.now += 9;
    assert_eq!(world.ids(STATE), ["a"]);
    world.now += 1;
    assert_eq!(world.ids(STATE), [""; 0]);
    assert_eq!(world.run(&RecordOp::Get { kind: STATE, id: id("a") }), RecordOutcome::Found(None));
    let delete = RecordOp::Delete { kind: STATE, id: id("a"), version: None };
    assert_eq!(world.run(&delete), RecordOutcome::Deleted(false));
    assert_eq!(world.run(&put(STATE, "a", WriteCondition::Absent)), written(2));
    world.run(&put_for(STATE, "b", 1));
    world.run(&put_for(LOG, "b", 1));
    world.now += 1;
    let now = Timestamp::from_millis(world.now);
    assert_eq!(world.table.remove_expired(now, 1, &mut world.journal), 1);
    assert_eq!(world.table.remove_expired(now, 9, &mut world.journal), 1);
    assert_eq!(world.table.remove_expired(now, 9, &mut world.journal), 0);
    assert_eq!(world.journal.replay(), world.table);
}

#[test]
fn a_full_kind_refuses_new_records_until_one_expires() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.run(&put(STATE, name, WriteCondition::Absent));
    }
    world.run(&put_for(STATE, "c", 10));
    let full = RecordOutcome::Full(Bound::new(Bound::RECORDS, 3, 3));
    assert_eq!(world.run(&put(STATE, "d", WriteCondition::Absent)), full);
    assert_eq!(world.run(&put(STATE, "b", WriteCondition::Always)), written(4), "it replaces one");
    world.now += 10;
    assert_eq!(world.run(&put(STATE, "d", WriteCondition::Absent)), written(5));
    assert_eq!(world.ids(STATE), ["a", "b", "d"]);
    assert_eq!(world.journal.replay(), world.table);
}

#[test]
fn a_kind_is_full_when_its_records_have_too_many_bytes() {
    const LARGE: RecordKind = RecordKind::new("large", 1_000_000, WhenFull::Refuse);
    const LARGE_LOG: RecordKind = RecordKind::new("large_log", 1_000_000, WhenFull::DropOldest);
    let mut world = World::new();
    let value = RecordValue::new(vec![0; 65_536]).unwrap();
    let large = |kind, number: u32| {
        let id = id(&format!("{number:05}"));
        RecordOp::Put { kind, id, value: value.clone(), condition: WriteCondition::Always, keep: None }
    };
    let fitting =
        (0..300).find(|number| world.run(&large(LARGE, *number)) != written(u64::from(*number) + 1));
    let fitting = fitting.expect("300 do not fit");
    assert_eq!(fitting, 255, "16 MiB, less the fixed cost of each record");
    let RecordOutcome::Full(bound) = world.run(&large(LARGE, fitting)) else { panic!("it is full") };
    assert_eq!((bound.name, bound.limit), (Bound::RECORD_BYTES, 16 << 20));
    for number in 0..300 {
        assert_eq!(world.run(&large(LARGE_LOG, number)), written(u64::from(number) + 1));
    }
    assert_eq!(world.ids(LARGE_LOG).first().map(String::as_str), Some("00045"), "the oldest were dropped");
    assert!(world.table.bytes() <= 2 * (16 << 20));
}

#[test]
fn a_log_drops_what_was_written_first() {
    let mut world = World::new();
    for name in ["b", "a", "c", "b", "d"] {
        world.run(&put(LOG, name, WriteCondition::Always));
    }
    assert_eq!(world.ids(LOG), ["b", "c", "d"]);
    let newest = world.run(&list(LOG, Direction::NewestFirst, None, 2));
    assert_eq!(ids(&newest), ["d", "c"]);
    let rest = world.run(&list(LOG, Direction::NewestFirst, Some("c"), 2));
    assert_eq!(ids(&rest), ["b"]);
    let rest = world.run(&list(LOG, Direction::OldestFirst, Some("b"), 1));
    assert_eq!(ids(&rest), ["c"]);
}

/// The limit of a kind is a constant of the code, and a newer version may lower it by any number.
#[test]
fn a_log_whose_limit_was_lowered_shrinks_with_each_write() {
    const LARGE: RecordKind = RecordKind::new("log", 3_000, WhenFull::DropOldest);
    let mut world = World::new();
    for number in 0..2_500 {
        world.run(&put(LARGE, &number.to_string(), WriteCondition::Always));
    }
    let outcomes = [0; 3].map(|_| world.run(&put(LOG, "new", WriteCondition::Always)));
    assert!(matches!(outcomes[0], RecordOutcome::Full(_)), "at most {REMOVALS_MAX} are removed at a time");
    assert_eq!(outcomes[2], written(2_501));
    assert_eq!(world.ids(LOG), ["2498", "2499", "new"]);
    assert_eq!(world.journal.replay(), world.table);
}

fn ops() -> impl Strategy<Value = RecordOp> {
    let kind = prop_oneof![Just(STATE), Just(LOG)];
    let condition = prop_oneof![
        Just(WriteCondition::Always),
        Just(WriteCondition::Absent),
        (1u64..8).prop_map(|version| WriteCondition::Version(RecordVersion(version))),
    ];
    let keep =
        prop::option::of((1u64..20).prop_map(|millis| Span::delay(Duration::from_millis(millis)).unwrap()));
    (kind, 0u8..6, condition, keep, any::<bool>()).prop_map(|(kind, name, condition, keep, puts)| {
        let id = id(&name.to_string());
        if puts {
            return RecordOp::Put { kind, id, value: RecordValue::default(), condition, keep };
        }
        let version = match condition {
            WriteCondition::Version(version) => Some(version),
            WriteCondition::Always | WriteCondition::Absent => None,
        };
        RecordOp::Delete { kind, id, version }
    })
}

proptest! {
    /// The journal alone rebuilds the table, also if records are written to it again, as compaction does.
    #[test]
    fn replaying_the_changes_rebuilds_the_same_table(steps in prop::collection::vec((ops(), 0u64..5, any::<bool>()), 1..60)) {
        let mut world = World::new();
        for (op, pause, rewrites) in steps {
            world.now += pause;
            world.run(&op);
            if rewrites {
                for kind in [STATE, LOG] {
                    let RecordOutcome::Listed(records) = world.run(&list(kind, Direction::OldestFirst, None, 100)) else {
                        unreachable!("a listing")
                    };
                    for record in &records {
                        let found = world.table.with_version(kind.name(), record.version);
                        prop_assert_eq!(found, Some(record));
                        world.journal.record_change(kind.name(), RecordChange::Written(record));
                    }
                }
            }
            prop_assert_eq!(&world.journal.replay(), &world.table);
        }
    }
}
