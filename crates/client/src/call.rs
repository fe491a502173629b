//! One call: requests, repeats, pauses, a deadline over all of them, and a bound on what is read.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use oncebox_wire::mailbox::{Recv, Work};
use oncebox_wire::{ErrorBody, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Client;
use crate::error::Error;
use crate::repeat::{Repeat, pause};

/// An answer is not read beyond this.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// So much of an error is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// A server that asks for a longer pause is taken to mean this one.
const RETRY_AFTER_MAX_SECONDS: u64 = 24 * 60 * 60;

/// What to ask, and how often that may be done.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Body,
    pub(crate) repeat: Repeat,
}

/// What a request carries.
pub(crate) enum Body {
    Bytes(Bytes),
    /// The server may wait before it answers; a repeat waits for what is left.
    Recv(Recv),
    Work(Work),
}

impl Body {
    /// So long the server may wait.
    fn wait(&self) -> Duration {
        let wish = match self {
            Self::Bytes(_) => return Duration::ZERO,
            Self::Recv(recv) => recv,
            Self::Work(work) => &work.recv,
        };
        Duration::from_millis(wish.wait_ms.unwrap_or(0))
    }

    fn after(&self, elapsed: Duration) -> Result<Bytes, Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Recv(recv) => encode(&after(recv, elapsed)),
            Self::Work(work) => {
                encode(&Work { settle: work.settle.clone(), recv: after(&work.recv, elapsed) })
            }
        }
    }
}

/// The same wish so much later.
fn after(wish: &Recv, elapsed: Duration) -> Recv {
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    Recv { wait_ms: wish.wait_ms.map(|wait| wait.saturating_sub(elapsed)), ..wish.clone() }
}

impl Call {
    pub(crate) fn get(target: String) -> Self {
        Self { method: Method::GET, target, body: Body::Bytes(Bytes::new()), repeat: Repeat::Safe }
    }

    pub(crate) fn post(target: impl Into<String>, repeat: Repeat, body: Body) -> Self {
        Self { method: Method::POST, target: target.into(), body, repeat }
    }

    /// The call ends after so long, if the client is that patient.
    pub(crate) fn limit(&self, timeout: Duration) -> Duration {
        timeout + self.body.wait()
    }
}

pub(crate) fn json(body: &impl Serialize) -> Result<Body, Error> {
    encode(body).map(Body::Bytes)
}

fn encode(body: &impl Serialize) -> Result<Bytes, Error> {
    let bytes = serde_json::to_vec(body);
    bytes.map(Bytes::from).map_err(|_| Error::invalid("the request cannot be written as JSON: fix it"))
}

/// Reads an answer. What is wrong with it is told by place: the text of the parser may hold a part of a payload.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Error::malformed(format!(
            "the answer is not what was asked for (line {line}, column {column}): is this a server of Oncebox, of about \
             the version of this client?"
        ))
    })
}

impl Client {
    /// Makes the call, and reads its answer as JSON.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let (_, bytes, corr_id) = self.fetch(call, |status| status.is_success()).await?;
        decode(&bytes).map_err(|error| error.of_call(&corr_id))
    }

    /// Makes the call, and reads its answer if its status is `welcome`.
    pub(crate) async fn fetch(
        &self,
        call: Call,
        welcome: fn(StatusCode) -> bool,
    ) -> Result<(StatusCode, Bytes, String), Error> {
        let corr_id = self.corr_id();
        let fetched = self.repeated(&call, &corr_id, &Whole { welcome }).await;
        let (status, bytes) = fetched.map_err(|error| error.of_call(&corr_id))?;
        Ok((status, bytes, corr_id))
    }

    /// Makes the call as often as its rules allow, until an answer can be taken.
    pub(crate) async fn repeated<T: Take>(
        &self,
        call: &Call,
        corr_id: &str,
        take: &T,
    ) -> Result<T::Taken, Error> {
        let (started, limit) = (Instant::now(), call.limit(self.shared.timeout));
        let deadline = started + limit;
        let mut repeats = 0;
        loop {
            let request = self.request(call, corr_id, started.elapsed())?;
            let attempt = async { take.take(self.exchange(request).await?).await };
            let error = match timeout_at(deadline, attempt).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => return Err(Error::timed_out(limit)),
            };
            let pause = pause(repeats, &error);
            let late = Instant::now() + pause >= deadline;
            if repeats >= self.shared.retries || late || !call.repeat.allows(&error) {
                return Err(error);
            }
            sleep(pause).await;
            repeats += 1;
        }
    }

    fn request(&self, call: &Call, corr_id: &str, elapsed: Duration) -> Result<Request<Full<Bytes>>, Error> {
        let uri = format!("{}{}", self.shared.address.origin(), call.target);
        let mut request = Request::builder().method(&call.method).uri(uri).header(header::CORR_ID, corr_id);
        if call.method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(actor) = &self.shared.actor {
            request = request.header(header::ACTOR, actor);
        }
        let request = request.body(Full::new(call.body.after(elapsed)?));
        request.map_err(|_| Error::invalid("the request is too long for an address: shorten its ids"))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        let address = &self.shared.address;
        self.shared.pool.request(request).await.map_err(|error| {
            let cause = cause(&error);
            if error.is_connect() {
                Error::unreachable(format!("nobody answers at {address}: is the server running?"), cause)
                    .unsent()
            } else {
                Error::unreachable(format!("the connection to {address} broke: repeat the call"), cause)
            }
        })
    }
}

/// What to do with an answer; a failure counts as one of the attempt.
pub(crate) trait Take: Sync {
    type Taken: Send;

    fn take(&self, answer: Response<Incoming>) -> impl Future<Output = Result<Self::Taken, Error>> + Send;
}

/// Reads it to its end, if its status is welcome.
struct Whole {
    welcome: fn(StatusCode) -> bool,
}

impl Take for Whole {
    type Taken = (StatusCode, Bytes);

    async fn take(&self, answer: Response<Incoming>) -> Result<Self::Taken, Error> {
        let status = answer.status();
        if !(self.welcome)(status) {
            return Err(refusal(answer).await);
        }
        Ok((status, read(answer, ANSWER_BYTES_MAX).await?))
    }
}

/// The deepest reason: those above it only say that there is one.
fn cause(error: &dyn StdError) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

async fn read(answer: Response<Incoming>, bytes_max: usize) -> Result<Bytes, Error> {
    let body = Limited::new(answer.into_body(), bytes_max).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Error::malformed(format!("the answer has more than {bytes_max} bytes: ask for less"))
        } else {
            Error::unreachable("the connection broke in the middle of the answer: repeat the call", error)
        }
    })
}

/// What an answer says that is an error.
pub(crate) async fn refusal(answer: Response<Incoming>) -> Error {
    let (status, retry_after) = (answer.status().as_u16(), retry_after(answer.headers()));
    let corr_id = answer.headers().get(header::CORR_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let body = match read(answer, ERROR_BYTES_MAX).await {
        Ok(bytes) => serde_json::from_slice::<ErrorBody>(&bytes).ok(),
        Err(_) => None,
    };
    let error = Error::refused(status, body, retry_after);
    match corr_id {
        Some(corr_id) => error.of_call(&corr_id),
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

    use oncebox_wire::mailbox::Recv;

    use super::after;

    #[test]
    fn a_repeat_waits_for_what_is_left() {
        let wish = Recv { wait_ms: Some(1_000), request_id: Some("r".into()), ..Recv::default() };
        let later = after(&wish, Duration::from_millis(300));
        assert_eq!((later.wait_ms, later.request_id.as_deref()), (Some(700), Some("r")));
        assert_eq!(after(&wish, Duration::from_secs(9)).wait_ms, Some(0));
        assert_eq!(after(&Recv::default(), Duration::from_secs(9)).wait_ms, None);
    }
}
