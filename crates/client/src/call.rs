//! One call: the request, its retries with backoff, a deadline for all of them, and a limit on the size of the
//! response.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use oncebox_wire::mailbox::{RecvRequest, WorkRequest};
use oncebox_wire::{ErrorBody, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::{RetryPolicy, backoff};

/// Maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum size of an error response.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Maximum value of `Retry-After`; a longer one is reduced to this.
const RETRY_AFTER_MAX_SECONDS: u64 = 24 * 60 * 60;

/// A request, and whether it may be retried.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Body,
    pub(crate) retry: RetryPolicy,
}

/// The body of a request.
pub(crate) enum Body {
    Bytes(Bytes),
    /// The server may wait before it responds; a retry waits for the remaining time.
    Recv(RecvRequest),
    Work(WorkRequest),
}

impl Body {
    /// How long the server may wait.
    fn wait(&self) -> Duration {
        let request = match self {
            Self::Bytes(_) => return Duration::ZERO,
            Self::Recv(recv) => recv,
            Self::Work(work) => &work.recv,
        };
        Duration::from_millis(request.wait_ms.unwrap_or(0))
    }

    /// The bytes of the body for a request that is sent `elapsed` after the call started.
    fn encode_after(&self, elapsed: Duration) -> Result<Bytes, ClientError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Recv(recv) => encode(&with_remaining_wait(recv, elapsed)),
            Self::Work(work) => encode(&WorkRequest {
                settle: work.settle.clone(),
                recv: with_remaining_wait(&work.recv, elapsed),
            }),
        }
    }
}

/// The same request with the wait reduced by the elapsed time.
fn with_remaining_wait(request: &RecvRequest, elapsed: Duration) -> RecvRequest {
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    RecvRequest { wait_ms: request.wait_ms.map(|wait| wait.saturating_sub(elapsed)), ..request.clone() }
}

impl Call {
    pub(crate) fn get(target: String) -> Self {
        Self { method: Method::GET, target, body: Body::Bytes(Bytes::new()), retry: RetryPolicy::Always }
    }

    pub(crate) fn post(target: impl Into<String>, retry: RetryPolicy, body: Body) -> Self {
        Self { method: Method::POST, target: target.into(), body, retry }
    }

    /// The timeout of the call, given the client's timeout.
    pub(crate) fn limit(&self, timeout: Duration) -> Duration {
        timeout + self.body.wait()
    }
}

pub(crate) fn json(body: &impl Serialize) -> Result<Body, ClientError> {
    encode(body).map(Body::Bytes)
}

fn encode(body: &impl Serialize) -> Result<Bytes, ClientError> {
    let bytes = serde_json::to_vec(body);
    bytes.map(Bytes::from).map_err(|_| ClientError::invalid("the request cannot be encoded as JSON: fix it"))
}

/// Decodes a response. An error contains only the position, because the parser's text may contain a part of a payload.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        ClientError::malformed(format!(
            "unexpected response (line {line}, column {column}): check that this is an Oncebox server of about the same version \
             as the client"
        ))
    })
}

impl Client {
    /// Makes the call, and decodes its response as JSON.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let (_, bytes, corr_id) = self.fetch(call, |status| status.is_success()).await?;
        decode(&bytes).map_err(|error| error.with_corr_id(&corr_id))
    }

    /// Makes the call, and reads its response if its status `is_expected`.
    pub(crate) async fn fetch(
        &self,
        call: Call,
        is_expected: fn(StatusCode) -> bool,
    ) -> Result<(StatusCode, Bytes, String), ClientError> {
        let corr_id = self.corr_id();
        let fetched = self.call_with_retries(&call, &corr_id, &WholeBody { is_expected }).await;
        let (status, bytes) = fetched.map_err(|error| error.with_corr_id(&corr_id))?;
        Ok((status, bytes, corr_id))
    }

    /// Makes the call, with retries as its policy allows, until a response is read.
    pub(crate) async fn call_with_retries<T: ReadResponse>(
        &self,
        call: &Call,
        corr_id: &str,
        reader: &T,
    ) -> Result<T::Output, ClientError> {
        let (started, limit) = (Instant::now(), call.limit(self.shared.timeout));
        let deadline = started + limit;
        let mut retries = 0;
        loop {
            let request = self.request(call, corr_id, started.elapsed())?;
            let attempt = async { reader.read(self.exchange(request).await?).await };
            let error = match timeout_at(deadline, attempt).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => error,
                Err(_) => return Err(ClientError::timed_out(limit)),
            };
            let backoff = backoff(retries, &error);
            let late = Instant::now() + backoff >= deadline;
            if retries >= self.shared.retries || late || !call.retry.allows(&error) {
                return Err(error);
            }
            sleep(backoff).await;
            retries += 1;
        }
    }

    fn request(
        &self,
        call: &Call,
        corr_id: &str,
        elapsed: Duration,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let uri = format!("{}{}", self.shared.address.origin(), call.target);
        let mut request = Request::builder().method(&call.method).uri(uri).header(header::CORR_ID, corr_id);
        if call.method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(actor) = &self.shared.actor {
            request = request.header(header::ACTOR, actor);
        }
        if let Some(authorization) = &self.shared.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(call.body.encode_after(elapsed)?));
        request.map_err(|_| ClientError::invalid("the request is too long for a URL: shorten its ids"))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        let address = &self.shared.address;
        self.shared.pool.request(request).await.map_err(|error| {
            let cause = cause(&error);
            if error.is_connect() {
                ClientError::unreachable(
                    format!("cannot connect to {address}: is the server running?"),
                    cause,
                )
                .unsent()
            } else {
                ClientError::unreachable(
                    format!("the connection to {address} was lost: retry the call"),
                    cause,
                )
            }
        })
    }
}

/// How to read a response; a failure counts as a failure of the attempt.
pub(crate) trait ReadResponse: Sync {
    type Output: Send;

    fn read(
        &self,
        response: Response<Incoming>,
    ) -> impl Future<Output = Result<Self::Output, ClientError>> + Send;
}

/// Reads the whole body, if the status is expected.
struct WholeBody {
    is_expected: fn(StatusCode) -> bool,
}

impl ReadResponse for WholeBody {
    type Output = (StatusCode, Bytes);

    async fn read(&self, response: Response<Incoming>) -> Result<Self::Output, ClientError> {
        let status = response.status();
        if !(self.is_expected)(status) {
            return Err(error_response(response).await);
        }
        Ok((status, read(response, RESPONSE_BYTES_MAX).await?))
    }
}

/// The innermost cause: the errors around it add no information.
fn cause(error: &dyn StdError) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes, ClientError> {
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            ClientError::malformed(format!("the response has more than {bytes_max} bytes: request less"))
        } else {
            ClientError::unreachable("the connection was lost during the response: retry the call", error)
        }
    })
}

/// The error of an error response.
pub(crate) async fn error_response(response: Response<Incoming>) -> ClientError {
    let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
    let corr_id = response.headers().get(header::CORR_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let body = match read(response, ERROR_BYTES_MAX).await {
        Ok(bytes) => serde_json::from_slice::<ErrorBody>(&bytes).ok(),
        Err(_) => None,
    };
    let error = ClientError::error_response(status, body, retry_after);
    match corr_id {
        Some(corr_id) => error.with_corr_id(&corr_id),
        None => error,
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_MAX_SECONDS)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_wire::mailbox::RecvRequest;

    use super::with_remaining_wait;

    #[test]
    fn a_retry_waits_for_the_remaining_time() {
        let request =
            RecvRequest { wait_ms: Some(1_000), request_id: Some("r".into()), ..RecvRequest::default() };
        let later = with_remaining_wait(&request, Duration::from_millis(300));
        assert_eq!((later.wait_ms, later.request_id.as_deref()), (Some(700), Some("r")));
        assert_eq!(with_remaining_wait(&request, Duration::from_secs(9)).wait_ms, Some(0));
        assert_eq!(with_remaining_wait(&RecvRequest::default(), Duration::from_secs(9)).wait_ms, None);
    }
}
