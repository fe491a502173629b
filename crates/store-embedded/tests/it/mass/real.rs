//! Mass expiry on a real disk, with segments of the default size. `ONCEBOX_MASS_MESSAGES` sets the number of messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncebox_core::machine::Capacity;
use oncebox_core::{Accepted, Budget, Clock, Store, StoreExt};
use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use super::{SECOND, check_expired, claim, message};

const MESSAGES_DEFAULT: usize = 20_000;
/// Messages accepted in one call.
const CALL: usize = 1_000;

/// A temporary directory, removed at the end.
struct Root(PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, clock: &Arc<ManualClock>) -> EmbeddedStore {
    let mut options = EmbeddedOptions::default();
    options.clock = Some(clock.clone());
    options.capacity = Capacity { messages_max: 1 << 40, keys_max: 1 << 40, live_bytes_max: 1 << 50 };
    EmbeddedStore::open(path, &options).expect("an intact store opens")
}

/// Copies the directory as a kill of the process would leave it now. Returns the number of bytes.
fn copy(from: &Path, to: &Path) -> std::io::Result<u64> {
    std::fs::create_dir_all(to)?;
    let mut bytes = 0;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        bytes += std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(bytes)
}

/// Runs something and prints how long it took.
fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let started = uptime();
    let result = run();
    println!("{what}: {:.3} s", uptime().saturating_sub(started).as_secs_f64());
    result
}

/// The peak memory of the process; empty where the system does not report it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
}

/// However many messages expire at one instant: the store serves calls meanwhile, and opens afterwards, whether it was
/// closed, or killed before or after.
/// Holds: RULE-05, RULE-12.
#[test]
fn mass_expiry() -> TestResult {
    let wanted = std::env::var("ONCEBOX_MASS_MESSAGES").ok().map(|text| text.parse()).transpose()?;
    let messages: usize = wanted.unwrap_or(MESSAGES_DEFAULT);
    let root = Root(std::env::temp_dir().join(format!("oncebox-mass-{}", std::process::id())));
    let (data, killed, worked) = (root.0.join("data"), root.0.join("killed"), root.0.join("worked"));
    let clock = Arc::new(ManualClock::default());
    let expires = Clock::now(&*clock).after(SECOND);
    let store = open(&data, &clock);
    timed(&format!("{messages} messages accepted"), || {
        for first in (0..messages).step_by(CALL) {
            let call: Vec<_> =
                (first..messages.min(first + CALL)).map(|id| message(id, Some(expires))).collect();
            let accepted = block_on(store.accept(&call)).unwrap();
            assert!(accepted.iter().all(|accepted| matches!(accepted, Accepted::New { .. })));
        }
    });
    println!("journal: {} MiB, {}", copy(&data, &killed)? >> 20, memory());
    clock.advance(SECOND);
    let claimed = timed("the first call after all have expired", || block_on(store.claim(&claim(10))));
    assert_eq!(claimed?, []);
    check_expired(&store, messages, expires)?;
    let report = timed("the first maintenance after that", || block_on(store.maintain(Budget::new(10_000))))?;
    assert_eq!(report.expired, messages as u64);
    copy(&data, &worked)?;
    drop(store);
    for (path, before) in
        [(&killed, "a kill before that"), (&worked, "a kill after that"), (&data, "a close")]
    {
        let store = timed(&format!("opening after {before}"), || open(path, &clock));
        check_expired(&store, messages, expires)?;
    }
    println!("{}", memory());
    Ok(())
}
