//! Lists a store, and emits a line for each message.

use oncebox_core::{Error, MessageQuery, Namespace, Omitted, Snapshot, Store};
use oncebox_store_embedded::EmbeddedStore;

use crate::trace;

/// Emits and returns all messages.
pub(crate) async fn list(store: &EmbeddedStore) -> Result<Vec<Snapshot<Omitted>>, Error> {
    let mut all = Vec::new();
    for namespace in [Namespace::Inbox, Namespace::Ledger] {
        let mut query = MessageQuery::all(namespace);
        loop {
            let page = store.page(&query).await?;
            page.messages.iter().for_each(|message| trace::emit(trace::snapshot(message)));
            all.extend(page.messages);
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    trace::emit("listed".to_owned());
    Ok(all)
}
