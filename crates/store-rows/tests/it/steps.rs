//! Retries after conflicts, and locks that other transactions hold.

use std::sync::Arc;

use oncebox_core::{
    Accepted, Action, AttemptCount, ErrorKind, Key, NewMessage, Operated, Order, Payload, Store, StoreExt,
    Topic,
};
use oncebox_store_rows::{LockWait, STEP_ITEMS_MAX};
use oncebox_testkit::{ManualClock, TestResult};
use std::num::NonZeroU32;

use crate::table::Table;
use crate::table_store::TableStore;

fn table(conflict_percent: u64) -> Arc<Table> {
    Arc::new(Table::new(Arc::new(ManualClock::default()), conflict_percent))
}

fn message(number: usize) -> NewMessage {
    let key = Key::inbox("steps", number.to_string()).unwrap();
    NewMessage::new(key, Topic::new("t").unwrap(), Payload::new("x").unwrap())
}

/// Half of all statements fail with a conflict, so that hardly any attempt succeeds at once; each message is accepted
/// once.
#[tokio::test]
async fn a_step_is_attempted_again_after_a_conflict() -> TestResult {
    let store = TableStore::new(table(50), 1, LockWait::Block);
    for number in 0..20 {
        let accepted = store.accept_one(&message(number)).await?;
        assert!(matches!(accepted, Accepted::New { .. }), "{accepted:?}");
    }
    Ok(())
}

#[tokio::test]
async fn conflicts_without_end_fail_the_call() {
    let store = TableStore::new(table(100), 1, LockWait::Block);
    let error = store.accept_one(&message(0)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_blocked()), (ErrorKind::Unavailable, false), "{error}");
}

/// A call that fails fast changes nothing while a lock is held, and succeeds afterwards.
#[tokio::test]
async fn a_call_that_fails_fast_is_blocked_by_a_lock() -> TestResult {
    let table = table(0);
    let store = TableStore::new(table.clone(), 1, LockWait::FailFast);
    let messages = [message(0), message(1)];
    table.set_locked(&messages[1].key, true);
    let error = store.accept(&messages).await.unwrap_err();
    assert!(error.is_blocked(), "{error}");
    table.set_locked(&messages[1].key, false);
    let accepted = store.accept(&messages).await?;
    assert!(accepted.iter().all(|outcome| matches!(outcome, Accepted::New { .. })), "{accepted:?}");
    Ok(())
}

/// Once a step of a call is committed, the call waits for locks, because it must run to completion.
#[tokio::test]
async fn a_call_that_has_committed_a_step_waits_for_locks() -> TestResult {
    let table = table(0);
    let store = TableStore::new(table.clone(), 1, LockWait::FailFast);
    let messages: Vec<_> = (0..=STEP_ITEMS_MAX).map(message).collect();
    let last = messages[STEP_ITEMS_MAX].key.clone();
    table.set_locked(&last, true);
    let unlock = async {
        table.waiting.notified().await;
        table.set_locked(&last, false);
    };
    let call = async {
        let accepted = store.accept(&messages).await;
        // If the call did not wait, this ends the other future.
        table.waiting.notify_one();
        accepted
    };
    let (accepted, ()) = tokio::join!(call, unlock);
    assert_eq!(accepted?.len(), messages.len());
    Ok(())
}

/// A message that the same call cancels and redrives returns to a lane that other messages have filled: they were not
/// loaded, and count.
#[tokio::test]
async fn a_lane_is_full_for_a_message_that_the_same_call_cancelled() -> TestResult {
    let store = TableStore::new(table(0), 1, LockWait::Block);
    let messages = [message(0), message(1)];
    store.accept(&messages).await?;
    let order = |action| Order { target: messages[0].key.clone().into(), action };
    let lane_max = NonZeroU32::new(1);
    let redrive = Action::Redrive { attempts: AttemptCount::Keep, times_max: None, lane_max };
    let operated = store.operate(&[order(Action::Cancel), order(redrive)]).await?;
    assert!(
        matches!(operated[..], [Operated::Changed(_), Operated::Saturated { .. }]),
        "the lane has a message: {operated:?}"
    );
    Ok(())
}
