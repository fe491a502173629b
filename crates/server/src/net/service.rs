//! What a listener serves: the interface between connections and the API.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body;
use hyper::{Request, Response};
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use super::activity::Timeouts;
use super::drive::RequestBody;
use super::lazy_timer::ReusableTimeout;
use super::listener::Peer;

/// Serves the requests of connections.
pub(crate) trait Service: Send + Sync + 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static;

    /// The timeouts of a new connection.
    fn timeouts(&self) -> Timeouts;

    /// The TLS configuration of a new TCP connection; none if it has no TLS.
    fn tls(&self) -> Option<Arc<ServerConfig>>;

    /// Answers a request; always returns a response.
    fn respond(
        &self,
        request: Request<RequestBody>,
        caller: &Caller,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Returns the replacement for a response that the HTTP parser wrote to a malformed head; `None` if the bytes are
    /// no such response.
    fn reject_head(&self, parser_response: &[u8]) -> Option<Vec<u8>>;
}

/// The client of a connection.
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    pub(crate) timeout: ReusableTimeout,
    /// Cancelled when the server no longer waits on behalf of the client: the client has closed its sending side and may
    /// be gone, or the server stops.
    pub(crate) gone: CancellationToken,
}
