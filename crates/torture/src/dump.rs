//! `dump`: lists the store, then claims everything that is ready.

use std::path::Path;

use oncebox_core::{Batch, Claim, Namespace, Owner, Span, Store, StoreExt};
use oncebox_store_embedded::{EmbeddedStore, Options};
use oncebox_testkit::block_on;

use crate::listing::list;
use crate::say::{self, say};
use crate::{Failure, load};

const BATCH_MESSAGES: u32 = 200;
/// Not one of the sizes that `load` begins with, so that both meet segments of other sizes.
const SEGMENT_BYTES: u64 = 96 << 10;

pub(crate) fn run(directory: &Path) -> Result<(), Failure> {
    let mut options = Options::default();
    options.segment_bytes = SEGMENT_BYTES;
    let store = EmbeddedStore::open(directory, &options)?;
    say("open".to_owned());
    block_on(async {
        list(&store).await?;
        let lease = Span::lease(load::LEASE)?;
        for id in 1.. {
            // The process id keeps owners of different dumps apart.
            let owner = Owner::new(u128::from(std::process::id()) << 64 | id)?;
            let claim = Claim::new(Namespace::Inbox, owner, lease, Batch::new(BATCH_MESSAGES)?);
            say(format!("call {id} work {:x} * {BATCH_MESSAGES}", owner.as_u128()));
            let deliveries = store.claim(&claim).await?;
            let told: Vec<String> = deliveries.iter().map(say::delivery).collect();
            say(format!("answer {id} {}", told.join(" ")));
            if deliveries.is_empty() {
                break;
            }
        }
        say("drained".to_owned());
        store.close().await?;
        Ok(())
    })
}
