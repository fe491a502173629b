//! What can change while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

use oncebox::Oncebox;
use oncebox::mailbox::Mailbox;

use crate::config::Config;
use crate::http::Limit;

/// The configuration that holds now.
pub(crate) struct Live(RwLock<Arc<Current>>);

/// A configuration, and what was made of it.
pub(crate) struct Current {
    pub(crate) config: Config,
    pub(crate) mailbox: Mailbox,
}

impl Current {
    /// Of a request that is about one thing.
    pub(crate) fn one(&self) -> Limit {
        let http = &self.config.http;
        Limit { bytes_max: http.body_bytes_max, within: http.body_timeout }
    }

    /// Of a request that is about many.
    pub(crate) fn many(&self) -> Limit {
        let http = &self.config.http;
        Limit { bytes_max: http.batch_bytes_max, within: http.body_timeout }
    }
}

impl Live {
    pub(crate) fn new(config: Config, oncebox: &Oncebox) -> Result<Self, oncebox::Error> {
        let mailbox = oncebox.mailbox(config.mailbox.clone())?;
        Ok(Self(RwLock::new(Arc::new(Current { config, mailbox }))))
    }

    pub(crate) fn get(&self) -> Arc<Current> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets a new configuration hold, as far as that is possible without a restart; names the settings that wait for one.
    pub(crate) fn adopt(
        &self,
        mut config: Config,
        oncebox: &Oncebox,
    ) -> Result<Vec<&'static str>, oncebox::Error> {
        let waiting = keep_fixed(&self.get().config, &mut config);
        let mailbox = oncebox.mailbox(config.mailbox.clone())?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Current { config, mailbox });
        Ok(waiting)
    }
}

/// Takes over from the old configuration what needs a restart to change, and names what differs.
fn keep_fixed(old: &Config, new: &mut Config) -> Vec<&'static str> {
    let mut waiting = Vec::new();
    macro_rules! keep {
        ($($name:literal: $($field:ident).+;)+) => {$(
            if old.$($field).+ != new.$($field).+ {
                waiting.push($name);
                new.$($field).+ = old.$($field).+.clone();
            }
        )+};
    }
    keep! {
        "listen": listen;
        "admin.listen": admin.listen;
        "admin.connections_max": admin.connections_max;
        "profile": profile;
        "amnesia": amnesia;
        "store": store;
        "log.format": log.format;
        "http.connections_max": http.connections_max;
        "http.bodies_bytes_max": http.bodies_bytes_max;
        "mailbox.shards": mailbox.shards;
        "ledger.keep": ledger.keep;
        "retention.seen": retention.seen;
        "retention.dead": retention.dead;
        "metrics.topics_max": metrics.topics_max;
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::keep_fixed;
    use crate::config::Config;

    #[test]
    fn what_needs_a_restart_stays_and_is_named() {
        let old = Config::default();
        let mut new = Config::default();
        new.mailbox.shards = 3;
        new.mailbox.topic.attempts_max = 9;
        new.store = "memory:".to_owned();
        assert_eq!(keep_fixed(&old, &mut new), ["store", "mailbox.shards"]);
        assert_eq!((new.mailbox.shards, new.mailbox.topic.attempts_max), (old.mailbox.shards, 9));
        assert_eq!(new.store, old.store);
    }
}
