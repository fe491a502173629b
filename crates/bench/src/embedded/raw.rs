//! The limit: bare appends to a file that is there already, and one sync for all that wait. Whatever a journal does, it must do
//! this. It knows no keys, no duplicates, no leases, no checksums, and could not be read back.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use oncebox_core::NewMessage;
use oncebox_store_embedded::disk::DiskFile;
use oncebox_system::uptime;
use tokio::sync::oneshot;

use super::slow;
use crate::drive::{Side, Took};

/// The file is written from its start again when it is full.
const FILE_BYTES: u64 = 64 << 20;
/// What stands before every payload, and all that an ack writes.
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
    /// The syncer sleeps until it is called.
    sleeps: bool,
    closed: bool,
}

impl Raw {
    /// A file full of zeros in `path`, and the thread that appends to it.
    pub(crate) fn open(path: &Path, slow: bool) -> Arc<Self> {
        let file = slow::disk(path, slow).create("raw").expect("a file can be made");
        let zeros = vec![0; 1 << 20];
        for offset in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_at(offset, &zeros).expect("the disk has room");
        }
        file.sync().expect("the disk syncs");
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let syncer = std::thread::Builder::new().name("raw-sync".to_owned()).spawn(move || told.sync(&*file));
        Arc::new(Self { shared, syncer: Some(syncer.expect("a thread can be started")) })
    }

    async fn append<'a>(&self, payloads: impl Iterator<Item = &'a [u8]>) {
        let (told, synced) = oneshot::channel();
        let sleeps = {
            let mut group = self.shared.lock();
            for payload in payloads {
                group.bytes.extend_from_slice(&HEADER);
                group.bytes.extend_from_slice(payload);
            }
            group.waiting.push(told);
            std::mem::take(&mut group.sleeps)
        };
        if sleeps {
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

    /// Writes and syncs what has come together, and tells those who wait for it.
    fn sync(&self, file: &dyn DiskFile) {
        let (mut taken, mut offset) = (Group::default(), 0);
        loop {
            let idle = |group: &mut Group| {
                group.sleeps = group.waiting.is_empty() && !group.closed;
                group.sleeps
            };
            let waited = self.work.wait_while(self.lock(), idle);
            let mut group = waited.unwrap_or_else(PoisonError::into_inner);
            if group.closed {
                return;
            }
            std::mem::swap(&mut *group, &mut taken);
            drop(group);
            let length = taken.bytes.len() as u64;
            offset = if offset + length > FILE_BYTES { 0 } else { offset };
            file.write_at(offset, &taken.bytes).expect("the file is there");
            file.sync().expect("the disk syncs");
            offset += length;
            taken.bytes.clear();
            for waiting in taken.waiting.drain(..) {
                let _ = waiting.send(());
            }
        }
    }
}

impl Side for Raw {
    async fn lifecycle(&self, _caller: usize, messages: &[NewMessage]) -> Took {
        let start = uptime();
        self.append(messages.iter().map(|message| message.content.payload.as_bytes())).await;
        let accept = uptime().saturating_sub(start);
        self.append(messages.iter().map(|_| &[][..])).await;
        Took { accept, claim: Duration::ZERO, messages: messages.len() }
    }
}
