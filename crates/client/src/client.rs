//! The client: what all its calls share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::address::Address;
use crate::connect::Connector;
use crate::error::Error;
use crate::random;

const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
const RETRIES: u32 = 4;
/// Connections that nobody uses are kept for so long. Servers usually wait longer.
const IDLE: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS_MAX: usize = 64;

pub(crate) type Pool = legacy::Client<Connector, Full<Bytes>>;

/// A client of one server. Cheap to clone; clones share their connections. Needs a Tokio runtime.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) address: Address,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
    corr_id: Option<String>,
    pub(crate) actor: Option<String>,
}

impl Client {
    /// A client of the server at `http://host:port` or `unix:/path/to.sock`. Does not connect yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if that is no such address.
    pub fn new(address: &str) -> Result<Self, Error> {
        Self::builder(address).build()
    }

    /// A client that is told more.
    pub fn builder(address: &str) -> Builder {
        Builder {
            address: address.to_owned(),
            timeout: TIMEOUT,
            retries: RETRIES,
            corr_id: None,
            actor: None,
        }
    }

    /// The id of the next call.
    pub(crate) fn corr_id(&self) -> String {
        self.shared.corr_id.clone().unwrap_or_else(random::uuid)
    }
}

/// What a client is told. Begin with [`Client::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    address: String,
    timeout: Duration,
    retries: u32,
    corr_id: Option<String>,
    actor: Option<String>,
}

impl Builder {
    /// A call ends after so long, repeats and pauses included: 30 seconds if not given, an hour at most. A call that waits for
    /// messages may take so much longer as it asks the server to wait.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// A call that fails is repeated so often at most, if that is safe: 4 if not given, 0 for never.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Ties all calls of this client together, here and in the server's log: a UUID. If not given, each call has its own.
    pub fn corr_id(mut self, id: impl Into<String>) -> Self {
        self.corr_id = Some(id.into());
        self
    }

    /// Who operates, for the server's audit log.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// The client.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if something that was given is not right.
    pub fn build(self) -> Result<Client, Error> {
        let address = Address::parse(&self.address)?;
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(Error::invalid("the timeout is zero or above an hour: give one between"));
        }
        if self.corr_id.as_deref().is_some_and(|id| uuid::Uuid::try_parse(id).is_err()) {
            return Err(Error::invalid("the correlation id is not a UUID: give one, or none"));
        }
        let speakable = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if self.actor.as_deref().is_some_and(|actor| actor.is_empty() || !speakable(actor)) {
            return Err(Error::invalid("the actor is empty or not plain ASCII: give a name that is"));
        }
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(Connector { address: address.clone() });
        let Self { timeout, retries, corr_id, actor, .. } = self;
        Ok(Client { shared: Arc::new(Shared { pool, address, timeout, retries, corr_id, actor }) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Client;
    use crate::Kind;

    #[test]
    fn what_is_not_right_is_refused_before_any_call() {
        let fine = || Client::builder("http://localhost");
        for wrong in [
            fine().timeout(Duration::ZERO),
            fine().timeout(Duration::MAX),
            fine().corr_id("x"),
            fine().actor("a\nb"),
            fine().actor(""),
            Client::builder("nowhere"),
        ] {
            assert_eq!(wrong.build().unwrap_err().kind(), Kind::Invalid);
        }
    }
}
