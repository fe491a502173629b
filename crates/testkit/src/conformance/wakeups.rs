//! Wake-ups: a hint that claiming may be worth it.

use std::time::Duration;

use oncebox_core::{Interest, Namespace, Store, Topics, Wakeups};

use super::kit::{Checked, claim_of, message, owner, seconds};
use crate::fixture::{Fixture, TestResult};

/// How long a case waits for a wake-up before it gives up. A store that wakes its waiters answers long before.
const PATIENCE: Duration = seconds(60);

fn wakeups(store: &dyn Store) -> Box<dyn Wakeups> {
    store.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL })
}

async fn woken(wakeups: &mut dyn Wakeups) -> TestResult {
    tokio::time::timeout(PATIENCE, wakeups.wait()).await.map_err(|_| "nobody woke the waiting worker".into())
}

/// A worker that waits is woken when a message comes.
/// Holds: IBX-024.
pub async fn a_new_message_wakes_a_waiting_worker(fixture: Fixture) -> TestResult {
    let mut wakeups = wakeups(&*fixture.store);
    let store = fixture.store.clone();
    let sender = tokio::spawn(async move { Checked::Ok(store.accept(&[message("1")]).await?) });
    woken(&mut *wakeups).await?;
    sender.await??;
    Ok(())
}

/// What came between making the wake-ups and waiting is not missed.
/// Holds: IBX-024.
pub async fn a_message_that_came_before_the_wait_wakes(fixture: Fixture) -> TestResult {
    let mut wakeups = wakeups(&*fixture.store);
    fixture.accept(&message("1")).await?;
    woken(&mut *wakeups).await?;
    fixture.take().await?;
    fixture.accept(&message("2")).await?;
    woken(&mut *wakeups).await
}

/// A wait that was given up takes no wake-up with it.
pub async fn a_cancelled_wait_misses_nothing(fixture: Fixture) -> TestResult {
    let mut wakeups = wakeups(&*fixture.store);
    let _given_up = tokio::time::timeout(Duration::ZERO, wakeups.wait()).await;
    fixture.accept(&message("1")).await?;
    woken(&mut *wakeups).await
}

/// A message that is given back wakes too.
/// Holds: RULE-07.
pub async fn a_released_message_wakes_a_waiting_worker(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take_by(&claim_of(&["orders"], 1)).await?;
    let mut wakeups = wakeups(&*fixture.store);
    fixture.settle(delivery.release()).await?;
    woken(&mut *wakeups).await
}

/// Closing the store wakes every waiting worker.
pub async fn closing_wakes_every_waiting_worker(fixture: Fixture) -> TestResult {
    let mut waiting = [owner(1), owner(2)].map(|_| wakeups(&*fixture.store));
    fixture.store.close().await?;
    for wakeups in &mut waiting {
        woken(&mut **wakeups).await?;
    }
    Ok(())
}

/// Nobody waits at a closed store, however late he comes and however often he waits.
pub async fn a_wait_at_a_closed_store_ends(fixture: Fixture) -> TestResult {
    let mut early = wakeups(&*fixture.store);
    fixture.store.close().await?;
    woken(&mut *early).await?;
    woken(&mut *early).await?;
    woken(&mut *wakeups(&*fixture.store)).await
}
