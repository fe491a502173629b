//! Wake-ups: hints that a claim is likely to return messages.

use std::time::Duration;

use oncebox_core::{Interest, Namespace, Store, Topics, Wakeups};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, claim_of, message, owner, seconds};

/// How long a case waits for a wake-up. A store that wakes its workers does so much earlier.
const TIMEOUT: Duration = seconds(60);

fn wakeups(store: &dyn Store) -> Box<dyn Wakeups> {
    store.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL })
}

async fn woken(wakeups: &mut dyn Wakeups) -> TestResult {
    tokio::time::timeout(TIMEOUT, wakeups.wait()).await.map_err(|_| "the waiting worker was not woken".into())
}

/// A waiting worker is woken by a new message.
/// Holds: IBX-024.
pub async fn a_new_message_wakes_a_waiting_worker(fixture: Fixture) -> TestResult {
    let mut wakeups = wakeups(&*fixture.store);
    let store = fixture.store.clone();
    let sender = tokio::spawn(async move { Checked::Ok(store.accept(&[message("1")]).await?) });
    woken(&mut *wakeups).await?;
    sender.await??;
    Ok(())
}

/// A message that is accepted between subscribing and waiting is not missed.
/// Holds: IBX-024.
pub async fn a_message_accepted_before_the_wait_wakes(fixture: Fixture) -> TestResult {
    let mut wakeups = wakeups(&*fixture.store);
    fixture.accept(&message("1")).await?;
    woken(&mut *wakeups).await?;
    fixture.claim_one().await?;
    fixture.accept(&message("2")).await?;
    woken(&mut *wakeups).await
}

/// A cancelled wait does not consume a wake-up.
pub async fn a_cancelled_wait_misses_nothing(fixture: Fixture) -> TestResult {
    let mut wakeups = wakeups(&*fixture.store);
    let _given_up = tokio::time::timeout(Duration::ZERO, wakeups.wait()).await;
    fixture.accept(&message("1")).await?;
    woken(&mut *wakeups).await
}

/// A released message wakes, too.
/// Holds: RULE-07.
pub async fn a_released_message_wakes_a_waiting_worker(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one_by(&claim_of(&["orders"], 1)).await?;
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

/// A wait on a closed store ends at once, however late it starts and however often it is repeated.
pub async fn a_wait_on_a_closed_store_ends(fixture: Fixture) -> TestResult {
    let mut early = wakeups(&*fixture.store);
    fixture.store.close().await?;
    woken(&mut *early).await?;
    woken(&mut *early).await?;
    woken(&mut *wakeups(&*fixture.store)).await
}
