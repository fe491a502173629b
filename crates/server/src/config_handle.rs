//! The effective configuration, which a reload replaces while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

use oncebox::Oncebox;
use oncebox::mailbox::Mailbox;
use tokio_rustls::rustls;

use crate::access::Keys;
use crate::config::Config;
use crate::server_error::ServerError;
use crate::tls;

/// Shared access to the active configuration.
pub(crate) struct ConfigHandle(RwLock<Arc<ActiveConfig>>);

/// A configuration, and what is built from it.
pub(crate) struct ActiveConfig {
    pub(crate) config: Config,
    pub(crate) mailbox: Mailbox,
    /// The root keys, if requests need tokens.
    pub(crate) keys: Option<Keys>,
    /// The certificate, if there is TLS.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

impl ActiveConfig {
    fn new(config: Config, oncebox: &Oncebox) -> Result<Self, ServerError> {
        let mailbox = oncebox.mailbox(config.mailbox.clone())?;
        let keys = config.auth.key_file.as_deref().map(|path| {
            Keys::read(path, config.auth.clock_tolerance).map_err(|problem| ServerError::KeyFile {
                path: path.to_owned(),
                problem: problem.to_string(),
            })
        });
        let keys = keys.transpose()?;
        let tls = tls::read(&config.tls).map_err(|problem| ServerError::Tls(problem.to_string()))?;
        Ok(Self { config, mailbox, keys, tls })
    }
}

impl ConfigHandle {
    pub(crate) fn new(config: Config, oncebox: &Oncebox) -> Result<Self, ServerError> {
        Ok(Self(RwLock::new(Arc::new(ActiveConfig::new(config, oncebox)?))))
    }

    pub(crate) fn get(&self) -> Arc<ActiveConfig> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the active configuration as far as possible without a restart; returns the changed settings that need
    /// one.
    pub(crate) fn apply(
        &self,
        mut config: Config,
        oncebox: &Oncebox,
    ) -> Result<Vec<&'static str>, ServerError> {
        let needs_restart = keep_restart_only(&self.get().config, &mut config);
        let active = Arc::new(ActiveConfig::new(config, oncebox)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = active;
        Ok(needs_restart)
    }
}

/// Copies the settings that need a restart from the old configuration, and returns the names of those that differ.
fn keep_restart_only(old: &Config, new: &mut Config) -> Vec<&'static str> {
    let mut needs_restart = Vec::new();
    macro_rules! keep {
        ($($name:literal: $($field:ident).+;)+) => {$(
            if old.$($field).+ != new.$($field).+ {
                needs_restart.push($name);
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
        "auth.key_file": auth.key_file;
        "tls.certificate_file": tls.certificate_file;
        "tls.key_file": tls.key_file;
        "tls.client_ca_file": tls.client_ca_file;
        "http.connections_max": http.connections_max;
        "http.bodies_bytes_max": http.bodies_bytes_max;
        "mailbox.shards": mailbox.shards;
        "ledger.keep": ledger.keep;
        "retention.seen": retention.seen;
        "retention.dead": retention.dead;
        "metrics.topics_max": metrics.topics_max;
    }
    needs_restart
}

#[cfg(test)]
mod tests {
    use super::keep_restart_only;
    use crate::config::Config;

    #[test]
    fn settings_that_need_a_restart_keep_their_values_and_are_reported() {
        let old = Config::default();
        let mut new = Config::default();
        new.mailbox.shards = 3;
        new.mailbox.topic.attempts_max = 9;
        new.store = "memory:".to_owned();
        assert_eq!(keep_restart_only(&old, &mut new), ["store", "mailbox.shards"]);
        assert_eq!((new.mailbox.shards, new.mailbox.topic.attempts_max), (old.mailbox.shards, 9));
        assert_eq!(new.store, old.store);
    }
}
