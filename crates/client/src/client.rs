//! The client and its builder.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::connect::Connector;
use crate::error::ClientError;
use crate::{random, tls};

const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
const RETRIES_DEFAULT: u32 = 4;
/// Idle connections are closed after this time. Servers usually keep them longer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS_MAX: usize = 64;

pub(crate) type Pool = legacy::Client<Connector, Full<Bytes>>;

/// A client for one server. Cheap to clone; clones share their connections. Needs a Tokio runtime.
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
    /// Never shown.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Client {
    /// A client for the server at `http://host:port`, `https://host:port` or `unix:/path/to.sock`. Does not connect yet.
    ///
    /// # Errors
    /// [`ClientErrorKind::Invalid`](crate::ClientErrorKind::Invalid) if the address is invalid.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        Self::builder(address).build()
    }

    /// A builder for a client with other options.
    pub fn builder(address: &str) -> ClientBuilder {
        ClientBuilder {
            address: address.to_owned(),
            timeout: TIMEOUT_DEFAULT,
            retries: RETRIES_DEFAULT,
            corr_id: None,
            actor: None,
            authorization: None,
            authorities: None,
        }
    }

    /// The correlation id of the next call.
    pub(crate) fn corr_id(&self) -> String {
        self.shared.corr_id.clone().unwrap_or_else(random::uuid)
    }
}

/// Options of a client. Start with [`Client::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientBuilder {
    address: String,
    timeout: Duration,
    retries: u32,
    corr_id: Option<String>,
    actor: Option<String>,
    authorization: Option<Result<HeaderValue, ()>>,
    authorities: Option<Vec<u8>>,
}

impl ClientBuilder {
    /// Timeout of a call, including retries and backoff: default 30 seconds, at most one hour. The `wait_ms` of a call
    /// that waits for messages is added to it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Maximum number of retries of a call, if they are safe: default 4; 0 disables retries.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Correlation id of all calls of this client, also in the server's log: a UUID. Default: a new id for each call.
    pub fn corr_id(mut self, id: impl Into<String>) -> Self {
        self.corr_id = Some(id.into());
        self
    }

    /// Name of the operator, for the server's audit log.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// The token of all calls, for a server that demands tokens.
    pub fn token(mut self, token: impl AsRef<str>) -> Self {
        let value = HeaderValue::try_from(format!("Bearer {}", token.as_ref().trim()));
        self.authorization = Some(value.map_err(drop).map(|mut value| {
            value.set_sensitive(true);
            value
        }));
        self
    }

    /// The certificate authorities to trust, in PEM format, for `https://`. Default: those of the system.
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// [`ClientErrorKind::Invalid`](crate::ClientErrorKind::Invalid) if an option is invalid.
    pub fn build(self) -> Result<Client, ClientError> {
        let address = Address::parse(&self.address)?;
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(ClientError::invalid(
                "the timeout is zero or more than an hour: use a value in between",
            ));
        }
        if self.corr_id.as_deref().is_some_and(|id| uuid::Uuid::try_parse(id).is_err()) {
            return Err(ClientError::invalid("the correlation id is not a UUID: use a UUID, or omit it"));
        }
        let is_printable = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if self.actor.as_deref().is_some_and(|actor| actor.is_empty() || !is_printable(actor)) {
            return Err(ClientError::invalid(
                "the actor is empty or not printable ASCII: use a name of printable ASCII characters",
            ));
        }
        let authorization = self.authorization.transpose().map_err(|()| {
            ClientError::invalid(
                "the token contains characters that no token has: pass it exactly as it was issued",
            )
        })?;
        let tls = match address {
            Address::Tcp { tls: true, .. } => {
                Some(TlsConnector::from(tls::config(self.authorities.as_deref())?))
            }
            _ => None,
        };
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(Connector { address: address.clone(), tls });
        let Self { timeout, retries, corr_id, actor, .. } = self;
        Ok(Client {
            shared: Arc::new(Shared { pool, address, timeout, retries, corr_id, actor, authorization }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Client;
    use crate::ClientErrorKind;

    #[test]
    fn invalid_options_are_rejected_before_any_call() {
        let valid = || Client::builder("http://localhost");
        for invalid in [
            valid().timeout(Duration::ZERO),
            valid().timeout(Duration::MAX),
            valid().corr_id("x"),
            valid().actor("a\nb"),
            valid().actor(""),
            Client::builder("nowhere"),
        ] {
            assert_eq!(invalid.build().unwrap_err().kind(), ClientErrorKind::Invalid);
        }
    }
}
