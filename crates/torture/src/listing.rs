//! Tells every message that is there.

use oncebox_core::{Error, Namespace, Omitted, Query, Snapshot, Store};
use oncebox_store_embedded::EmbeddedStore;

use crate::say;

/// Lists all messages, and returns them.
pub(crate) async fn list(store: &EmbeddedStore) -> Result<Vec<Snapshot<Omitted>>, Error> {
    let mut all = Vec::new();
    for namespace in [Namespace::Inbox, Namespace::Ledger] {
        let mut query = Query::all(namespace);
        loop {
            let page = store.page(&query).await?;
            page.messages.iter().for_each(|message| say::say(say::snapshot(message)));
            all.extend(page.messages);
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    say::say("listed".to_owned());
    Ok(all)
}
