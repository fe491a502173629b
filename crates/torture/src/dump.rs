//! `dump`: lists the store, then claims everything that is ready.

use std::path::Path;

use oncebox_core::{Batch, Claim, Namespace, Owner, Span, Store, StoreExt};
use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};
use oncebox_testkit::block_on;

use crate::Failure;
use crate::caller::LEASE;
use crate::listing::list;
use crate::trace::{self, emit};

const BATCH_MESSAGES: u32 = 200;
/// Differs from the sizes that `load` uses, so that each opens segments of a foreign size.
const SEGMENT_BYTES: u64 = 96 << 10;

pub(crate) fn run(directory: &Path) -> Result<(), Failure> {
    let mut options = EmbeddedOptions::default();
    options.segment_bytes = SEGMENT_BYTES;
    let store = EmbeddedStore::open(directory, &options)?;
    emit("open".to_owned());
    block_on(async {
        list(&store).await?;
        let lease = Span::lease(LEASE)?;
        for id in 1.. {
            // The process id makes the owners of different dumps unique.
            let owner = Owner::new(u128::from(std::process::id()) << 64 | id)?;
            let claim = Claim::new(Namespace::Inbox, owner, lease, Batch::new(BATCH_MESSAGES)?);
            emit(format!("call {id} work {:x} * {BATCH_MESSAGES}", owner.as_u128()));
            let deliveries = store.claim(&claim).await?;
            let items: Vec<String> = deliveries.iter().map(trace::delivery).collect();
            emit(format!("answer {id} {}", items.join(" ")));
            if deliveries.is_empty() {
                break;
            }
        }
        emit("drained".to_owned());
        store.close().await?;
        Ok(())
    })
}
