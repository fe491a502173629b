//! The limit: bare appends to a preallocated file, with one sync for all waiting calls. Every journal has to do at
//! least this. There are no keys, duplicates, leases or checksums, and the file could not be read back.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use oncebox_core::NewMessage;
use oncebox_store_embedded::disk::DiskFile;
use oncebox_system::uptime;
use tokio::sync::oneshot;

use super::slow;
use crate::drive::{LifecycleTimes, Side};

/// A full file is overwritten from its start.
const FILE_BYTES: u64 = 64 << 20;
/// Written before every payload; an ack writes only this.
const HEADER: [u8; 32] = [0x5A; 32];

pub(crate) struct Raw {
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    group: Mutex<Group>,
    work: Condvar,
}

#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
    /// The syncer waits to be notified.
    idle: bool,
    closed: bool,
}

impl Raw {
    /// Creates a file of zeros in `path` and starts the thread that writes to it.
    pub(crate) fn open(path: &Path, slow: bool) -> Arc<Self> {
        let file = slow::disk(path, slow).create("raw").expect("a file can be created");
        let zeros = vec![0; 1 << 20];
        for offset in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_at(offset, &zeros).expect("the disk has space");
        }
        file.sync().expect("the disk syncs");
        let shared = Arc::new(Shared::default());
        let syncer_shared = Arc::clone(&shared);
        let syncer =
            std::thread::Builder::new().name("raw-sync".to_owned()).spawn(move || syncer_shared.sync(&*file));
        Arc::new(Self { shared, syncer: Some(syncer.expect("a thread can be started")) })
    }

    async fn append<'a>(&self, payloads: impl Iterator<Item = &'a [u8]>) {
        let (sender, synced) = oneshot::channel();
        let idle = {
            let mut group = self.shared.lock();
            for payload in payloads {
                group.bytes.extend_from_slice(&HEADER);
                group.bytes.extend_from_slice(payload);
            }
            group.waiting.push(sender);
            std::mem::take(&mut group.idle)
        };
        if idle {
            self.shared.work.notify_one();
        }
        synced.await.expect("the file is synced");
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        self.syncer.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs the collected bytes, then wakes the calls that wait for them.
    fn sync(&self, file: &dyn DiskFile) {
        let (mut batch, mut offset) = (Group::default(), 0);
        loop {
            let is_idle = |group: &mut Group| {
                group.idle = group.waiting.is_empty() && !group.closed;
                group.idle
            };
            let waited = self.work.wait_while(self.lock(), is_idle);
            let mut group = waited.unwrap_or_else(PoisonError::into_inner);
            if group.closed {
                return;
            }
            std::mem::swap(&mut *group, &mut batch);
            drop(group);
            let length = batch.bytes.len() as u64;
            offset = if offset + length > FILE_BYTES { 0 } else { offset };
            file.write_at(offset, &batch.bytes).expect("the file is writable");
            file.sync().expect("the disk syncs");
            offset += length;
            batch.bytes.clear();
            for waiting in batch.waiting.drain(..) {
                let _ = waiting.send(());
            }
        }
    }
}

impl Side for Raw {
    async fn lifecycle(&self, _caller: usize, messages: &[NewMessage]) -> LifecycleTimes {
        let start = uptime();
        self.append(messages.iter().map(|message| message.content.payload.as_bytes())).await;
        let accept = uptime().saturating_sub(start);
        self.append(messages.iter().map(|_| &[][..])).await;
        LifecycleTimes { accept, claim: Duration::ZERO, messages: messages.len() }
    }
}
