//! Records: versions, expiry, bounds, listings.

use std::time::Duration;

use oncebox_core::limits::{RECORD_KIND_BYTES_MAX, RECORD_OPS_MAX, RECORD_VALUE_BYTES_MAX};
use oncebox_core::{
    Bound, Budget, Direction, ErrorKind, PageSize, Record, RecordId, RecordKind, RecordOp, RecordOutcome,
    RecordValue, RecordVersion, StoreExt, Timestamp, WhenFull, WriteCondition, record_bytes,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, TICK, race, seconds, span};

const STATE: RecordKind = RecordKind::new("test_state", 3, WhenFull::Refuse);
const OTHER: RecordKind = RecordKind::new("test_other", 3, WhenFull::Refuse);
const LOG: RecordKind = RecordKind::new("test_log", 3, WhenFull::DropOldest);
const LARGE_STATE: RecordKind = RecordKind::new("test_large_state", 1_000, WhenFull::Refuse);
const LARGE_LOG: RecordKind = RecordKind::new("test_large_log", 1_000, WhenFull::DropOldest);

fn id(text: &str) -> RecordId {
    RecordId::new(text).expect("a short id")
}

fn value(text: &str) -> RecordValue {
    RecordValue::new(text.to_owned()).expect("a short value")
}

/// Writes a record whose value is its id.
fn put(kind: RecordKind, name: &str, condition: WriteCondition) -> RecordOp {
    RecordOp::Put { kind, id: id(name), value: value(name), condition, keep: None }
}

fn put_for(kind: RecordKind, name: &str, keep: Duration) -> RecordOp {
    let condition = WriteCondition::Always;
    RecordOp::Put { kind, id: id(name), value: value(name), condition, keep: Some(span(keep)) }
}

fn get(kind: RecordKind, name: &str) -> RecordOp {
    RecordOp::Get { kind, id: id(name) }
}

fn delete(kind: RecordKind, name: &str, version: Option<u64>) -> RecordOp {
    RecordOp::Delete { kind, id: id(name), version: version.map(RecordVersion) }
}

fn expecting(version: u64) -> WriteCondition {
    WriteCondition::Version(RecordVersion(version))
}

fn written(version: u64) -> RecordOutcome {
    RecordOutcome::Written(RecordVersion(version))
}

impl Fixture {
    async fn record(&self, op: RecordOp) -> Checked<RecordOutcome> {
        Ok(self.store.record(op).await?)
    }

    /// The ids on a page.
    async fn record_ids(
        &self,
        kind: RecordKind,
        direction: Direction,
        after: Option<&str>,
        size: u32,
    ) -> Checked<Vec<String>> {
        let op = RecordOp::List { kind, direction, after: after.map(id), size: PageSize::new(size)? };
        match self.record(op).await? {
            RecordOutcome::Listed(records) => {
                Ok(records.into_iter().map(|record| record.id.to_string()).collect())
            }
            other => Err(format!("a listing was expected: {other:?}").into()),
        }
    }
}

/// What was written is read, with its version and time, and is gone after its deletion.
/// Holds: RULE-32.
pub async fn a_record_is_written_read_and_deleted(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.record(get(STATE, "a")).await?, RecordOutcome::Found(None));
    assert_eq!(fixture.record(put(STATE, "a", WriteCondition::Always)).await?, written(1));
    let record = Record {
        id: id("a"),
        version: RecordVersion(1),
        value: value("a"),
        written_at: fixture.time.now().await,
        expires_at: Timestamp::NEVER,
    };
    assert_eq!(fixture.record(get(STATE, "a")).await?, RecordOutcome::Found(Some(record)));
    assert_eq!(fixture.record(get(OTHER, "a")).await?, RecordOutcome::Found(None), "kinds are independent");
    assert_eq!(fixture.record(delete(STATE, "a", None)).await?, RecordOutcome::Deleted(true));
    assert_eq!(fixture.record(delete(STATE, "a", None)).await?, RecordOutcome::Deleted(false));
    assert_eq!(fixture.record(get(STATE, "a")).await?, RecordOutcome::Found(None));
    Ok(())
}

/// The largest value, of any bytes, and the longest id are kept.
pub async fn the_largest_record_is_kept(fixture: Fixture) -> TestResult {
    let bytes: Vec<u8> =
        (0..RECORD_VALUE_BYTES_MAX).map(|index| u8::try_from(index % 251).unwrap_or(0)).collect();
    for (name, value) in [("é".repeat(512), bytes), ("%_'\"\\".to_owned(), Vec::new())] {
        let (id, value) = (RecordId::new(name)?, RecordValue::new(value)?);
        let condition = WriteCondition::Absent;
        let put = RecordOp::Put { kind: STATE, id: id.clone(), value: value.clone(), condition, keep: None };
        fixture.record(put).await?;
        match fixture.record(RecordOp::Get { kind: STATE, id }).await? {
            RecordOutcome::Found(Some(found)) => assert_eq!(found.value, value),
            other => return Err(format!("it is there: {other:?}").into()),
        }
    }
    Ok(())
}

/// A conditional write takes effect only if the record is as expected; otherwise the answer contains the record.
/// Holds: RULE-32.
pub async fn a_write_needs_the_version_that_it_expects(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.record(put(STATE, "a", expecting(1))).await?, RecordOutcome::Conflict(None));
    assert_eq!(fixture.record(put(STATE, "a", WriteCondition::Absent)).await?, written(1));
    let RecordOutcome::Conflict(Some(current)) =
        fixture.record(put(STATE, "a", WriteCondition::Absent)).await?
    else {
        return Err("a repeat finds what the first one wrote".into());
    };
    assert_eq!((current.version, current.value), (RecordVersion(1), value("a")));
    assert_eq!(fixture.record(put(STATE, "a", expecting(1))).await?, written(2));
    let stale = fixture.record(put(STATE, "a", expecting(1))).await?;
    assert!(matches!(stale, RecordOutcome::Conflict(Some(record)) if record.version == RecordVersion(2)));
    let stale = fixture.record(delete(STATE, "a", Some(1))).await?;
    assert!(matches!(stale, RecordOutcome::Conflict(Some(record)) if record.version == RecordVersion(2)));
    assert_eq!(fixture.record(delete(STATE, "a", Some(2))).await?, RecordOutcome::Deleted(true));
    Ok(())
}

/// Versions grow within a kind, also after a deletion.
/// Holds: RULE-32.
pub async fn a_version_is_never_used_twice(fixture: Fixture) -> TestResult {
    for version in 1..=6 {
        let name = if version % 2 == 0 { "a" } else { "b" };
        assert_eq!(fixture.record(put(STATE, name, WriteCondition::Always)).await?, written(version));
        if version % 3 == 0 {
            fixture.record(delete(STATE, name, None)).await?;
        }
    }
    assert_eq!(fixture.record(put(OTHER, "a", WriteCondition::Always)).await?, written(1));
    Ok(())
}

/// Of many concurrent writes that expect the same version, one takes effect.
/// Holds: RULE-32.
pub async fn one_of_many_concurrent_writes_takes_effect(fixture: Fixture) -> TestResult {
    for (version, condition) in [(1, WriteCondition::Absent), (2, expecting(1)), (3, expecting(2))] {
        let tasks = (0..8).map(|_| {
            let store = fixture.store.clone();
            async move { Ok(store.record(put(STATE, "a", condition)).await?) }
        });
        let outcomes: Vec<RecordOutcome> = race(tasks.collect()).await?;
        let winners = outcomes.iter().filter(|outcome| **outcome == written(version)).count();
        let losers = outcomes.iter().filter(|outcome| matches!(outcome, RecordOutcome::Conflict(Some(_))));
        assert_eq!((winners, losers.count()), (1, 7), "{outcomes:?}");
    }
    Ok(())
}

/// Concurrent writes of one kind never exceed its limit.
/// Holds: RULE-32.
pub async fn concurrent_writes_keep_to_the_limit(fixture: Fixture) -> TestResult {
    let tasks = (0..8).map(|number| {
        let store = fixture.store.clone();
        async move { Ok(store.record(put(STATE, &number.to_string(), WriteCondition::Absent)).await?) }
    });
    let outcomes: Vec<RecordOutcome> = race(tasks.collect()).await?;
    let full = RecordOutcome::Full(Bound::new(Bound::RECORDS, 3, 3));
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == full).count(), 5, "{outcomes:?}");
    assert_eq!(fixture.record_ids(STATE, Direction::OldestFirst, None, 10).await?.len(), 3);
    Ok(())
}

/// Records are listed in byte order of their ids, in both directions, page by page.
pub async fn records_are_listed_by_id(fixture: Fixture) -> TestResult {
    for name in ["b", "é", "B"] {
        fixture.record(put(STATE, name, WriteCondition::Always)).await?;
    }
    fixture.record(put(OTHER, "c", WriteCondition::Always)).await?;
    let (up, down) = (Direction::OldestFirst, Direction::NewestFirst);
    assert_eq!(fixture.record_ids(STATE, up, None, 10).await?, ["B", "b", "é"]);
    assert_eq!(fixture.record_ids(STATE, down, None, 10).await?, ["é", "b", "B"]);
    assert_eq!(fixture.record_ids(STATE, up, None, 2).await?, ["B", "b"]);
    assert_eq!(fixture.record_ids(STATE, up, Some("b"), 2).await?, ["é"]);
    assert_eq!(fixture.record_ids(STATE, down, Some("b"), 2).await?, ["B"]);
    assert_eq!(fixture.record_ids(STATE, up, Some("a"), 2).await?, ["b", "é"], "the id need not exist");
    Ok(())
}

/// A record is gone at the moment it expires, whether maintenance has run or not.
/// Holds: RULE-32.
pub async fn a_record_expires_at_its_instant(fixture: Fixture) -> TestResult {
    fixture.record(put_for(STATE, "a", seconds(10))).await?;
    fixture.record(put_for(STATE, "b", seconds(10))).await?;
    fixture.advance_almost(seconds(10)).await;
    assert_eq!(fixture.record_ids(STATE, Direction::OldestFirst, None, 10).await?, ["a", "b"]);
    fixture.advance(TICK).await;
    for maintained in [false, true] {
        if maintained {
            fixture.maintain(&Budget::new(100)).await?;
        }
        assert_eq!(fixture.record(get(STATE, "a")).await?, RecordOutcome::Found(None));
        assert_eq!(fixture.record_ids(STATE, Direction::OldestFirst, None, 10).await?, [""; 0]);
        assert_eq!(fixture.record(delete(STATE, "a", None)).await?, RecordOutcome::Deleted(false));
        assert_eq!(fixture.record(put(STATE, "a", expecting(1))).await?, RecordOutcome::Conflict(None));
    }
    assert_eq!(fixture.record(put(STATE, "a", WriteCondition::Absent)).await?, written(3));
    Ok(())
}

/// A full kind refuses a new record and names the bound, until a record is deleted or expires. Replacing is possible.
/// Holds: RULE-32.
pub async fn a_full_kind_refuses_new_records(fixture: Fixture) -> TestResult {
    for name in ["a", "b"] {
        fixture.record(put(STATE, name, WriteCondition::Always)).await?;
    }
    fixture.record(put_for(STATE, "c", seconds(10))).await?;
    let full = RecordOutcome::Full(Bound::new(Bound::RECORDS, 3, 3));
    assert_eq!(fixture.record(put(STATE, "d", WriteCondition::Always)).await?, full);
    assert_eq!(fixture.record(put(STATE, "b", WriteCondition::Always)).await?, written(4));
    fixture.advance(seconds(10)).await;
    assert_eq!(fixture.record(put(STATE, "d", WriteCondition::Always)).await?, written(5));
    assert_eq!(fixture.record(put(STATE, "e", WriteCondition::Always)).await?, full);
    fixture.record(delete(STATE, "a", None)).await?;
    assert_eq!(fixture.record(put(STATE, "e", WriteCondition::Always)).await?, written(6));
    assert_eq!(fixture.record_ids(STATE, Direction::OldestFirst, None, 10).await?, ["b", "d", "e"]);
    Ok(())
}

/// A full log drops the records that were written first, not those with the lowest ids.
/// Holds: RULE-32.
pub async fn a_full_log_drops_what_was_written_first(fixture: Fixture) -> TestResult {
    for name in ["b", "a", "c", "b", "d"] {
        assert!(matches!(
            fixture.record(put(LOG, name, WriteCondition::Always)).await?,
            RecordOutcome::Written(_)
        ));
    }
    assert_eq!(fixture.record_ids(LOG, Direction::OldestFirst, None, 10).await?, ["b", "c", "d"]);
    Ok(())
}

/// Writes records of the largest size until one more does not fit. Returns how many there are, and the bytes that they
/// use.
async fn fill_with_large_records(fixture: &Fixture, kind: RecordKind) -> Checked<(u64, u64)> {
    let bytes = record_bytes(&id("000"), &RecordValue::new(vec![0; RECORD_VALUE_BYTES_MAX])?);
    let records = RECORD_KIND_BYTES_MAX / bytes;
    let ops: Vec<_> = (0..records).map(|number| put_large(kind, number)).collect();
    for ops in ops.chunks(50) {
        let outcomes = fixture.store.records(ops).await?;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, RecordOutcome::Written(_))), "{outcomes:?}");
    }
    Ok((records, records * bytes))
}

fn put_large(kind: RecordKind, number: u64) -> RecordOp {
    let value = RecordValue::new(vec![0; RECORD_VALUE_BYTES_MAX]).expect("the largest value");
    let condition = WriteCondition::Always;
    RecordOp::Put { kind, id: id(&format!("{number:03}")), value, condition, keep: None }
}

/// A kind whose records have as many bytes as it may keep refuses another one and names the bound. Replacing a record
/// needs no more space than it frees; a smaller value leaves space for another record.
/// Holds: RULE-32.
pub async fn a_kind_refuses_more_bytes_than_it_may_keep(fixture: Fixture) -> TestResult {
    let (records, used) = fill_with_large_records(&fixture, LARGE_STATE).await?;
    let full = RecordOutcome::Full(Bound::new(Bound::RECORD_BYTES, used, RECORD_KIND_BYTES_MAX));
    assert_eq!(fixture.record(put_large(LARGE_STATE, records)).await?, full);
    let replaced = fixture.record(put_large(LARGE_STATE, 7)).await?;
    assert_eq!(replaced, written(records + 1));
    assert_eq!(fixture.record(put_large(LARGE_STATE, records)).await?, full, "replacing freed nothing");
    assert_eq!(fixture.record(put_large(OTHER, 0)).await?, written(1), "another kind has its own space");
    fixture.record(put(LARGE_STATE, "007", WriteCondition::Always)).await?;
    assert_eq!(fixture.record(put_large(LARGE_STATE, records)).await?, written(records + 3));
    Ok(())
}

/// A log drops as many of its oldest records as a new one needs bytes.
/// Holds: RULE-32.
pub async fn a_log_drops_its_oldest_records_for_the_bytes_of_a_new_one(fixture: Fixture) -> TestResult {
    let (records, _) = fill_with_large_records(&fixture, LARGE_LOG).await?;
    assert_eq!(fixture.record_ids(LARGE_LOG, Direction::OldestFirst, None, 2).await?, ["000", "001"]);
    assert_eq!(fixture.record(put_large(LARGE_LOG, records)).await?, written(records + 1));
    assert_eq!(fixture.record_ids(LARGE_LOG, Direction::OldestFirst, None, 2).await?, ["001", "002"]);
    let newest = fixture.record_ids(LARGE_LOG, Direction::NewestFirst, None, 1).await?;
    assert_eq!(newest, [format!("{records:03}")]);
    Ok(())
}

/// The operations of a call take effect one after another.
pub async fn the_operations_of_a_call_take_effect_in_order(fixture: Fixture) -> TestResult {
    let ops = [
        put(STATE, "a", WriteCondition::Absent),
        put(LOG, "a", WriteCondition::Absent),
        put(STATE, "a", expecting(1)),
        get(STATE, "b"),
        delete(STATE, "a", Some(2)),
        get(STATE, "a"),
        put(STATE, "a", WriteCondition::Absent),
    ];
    let none = RecordOutcome::Found(None);
    let expected =
        [written(1), written(1), written(2), none.clone(), RecordOutcome::Deleted(true), none, written(3)];
    assert_eq!(fixture.store.records(&ops).await?, expected);
    assert_eq!(fixture.store.records(&[]).await?, []);
    let too_many = vec![get(STATE, "a"); RECORD_OPS_MAX + 1];
    let refused = fixture.store.records(&too_many).await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    assert_eq!(fixture.store.records(&too_many[1..]).await?.len(), RECORD_OPS_MAX);
    Ok(())
}
