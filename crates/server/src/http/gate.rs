//! The gate: what every request passes before it is looked at, and every answer before it leaves.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{ACCEPT, ALLOW, CONNECTION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use oncebox_core::{Trace, Uid};
use oncebox_wire::{Code, header};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::app::App;
use super::express::{self, Express};
use super::head;
use super::refusal::{Refusal, Shape};
use super::unparsed;
use crate::net::Patience;

/// Beyond what a request asks to wait for, it has so long to be answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Made once: a header's name is a text of its own otherwise, for every answer.
const CORR_ID: HeaderName = HeaderName::from_static(header::CORR_ID);

/// Where a connection came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Tcp,
    Unix,
}

/// Ties a request to its answer, its message and the logs.
#[derive(Debug, Clone)]
pub(super) struct CorrId(HeaderValue);

impl CorrId {
    pub(super) fn as_str(&self) -> &str {
        // Whatever it was made of, it is a UUID.
        self.0.to_str().unwrap_or_default()
    }

    /// For messages that came without an id of their own.
    pub(super) fn trace(&self) -> Trace {
        Trace::default().with_correlation(self.as_str()).unwrap_or_default()
    }
}

/// The client of a connection.
pub(crate) struct Caller {
    pub(crate) door: Door,
    pub(crate) patience: Patience,
    /// Set once the client has closed its sending side: it may be gone, so nothing is waited for on its behalf.
    pub(crate) hung_up: CancellationToken,
}

/// [`Caller::hung_up`], for routes that wait.
#[derive(Clone)]
pub(super) struct HungUp(pub(super) CancellationToken);

/// The routes of a listener behind one gate.
#[derive(Clone)]
pub(crate) struct Gate {
    app: App,
    /// The routes of messages, for listeners that have them.
    express: Option<Express>,
    router: Router,
}

impl Gate {
    /// The gate of a listener that has all routes.
    pub(super) fn new(app: App, router: Router) -> Self {
        Self { express: Some(Express::new(app.clone())), app, router }
    }

    /// The gate of a listener that has those of the router alone.
    pub(super) fn limited(app: App, router: Router) -> Self {
        Self { express: None, app, router }
    }

    /// Answers a request; whatever happens, there is an answer.
    pub(crate) async fn answer(&self, request: Request, caller: &Caller) -> Response {
        let shape = shape(request.headers());
        let (corr_id, checked) = match corr_id(&self.app, request.headers()) {
            Ok(corr_id) => (corr_id, head::check(caller.door, &request)),
            Err(refusal) => (made(&self.app), Err(refusal)),
        };
        let mut response = match checked {
            Ok(()) => self.pass(request, &corr_id, caller).await,
            Err(refusal) => axum::response::IntoResponse::into_response(refusal),
        };
        if let Some(refusal) = response.extensions_mut().remove::<Arc<Refusal>>() {
            self.app.refused(&refusal);
            tracing::debug!(corr_id = corr_id.as_str(), code = %refusal.code, "refused");
            let allow = response.headers_mut().remove(ALLOW);
            response = refusal.render(corr_id.as_str(), shape);
            // The router knows which methods there are.
            if let Some(allow) = allow {
                response.headers_mut().insert(ALLOW, allow);
            }
        }
        response.headers_mut().insert(CORR_ID, corr_id.0);
        // An answer is what it says it is, also where a browser would guess.
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // With amnesia: what came over a connection stays in its buffer for as long as it is open.
        if self.app.stopping.is_cancelled() || self.app.live().config.amnesia {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The answer to a request whose head could not be read, in place of the one that the parser has written; none if that is
    /// no answer of the kind.
    pub(crate) fn refuse_head(&self, parsers: &[u8]) -> Option<Vec<u8>> {
        let corr_id = made(&self.app);
        let (refusal, answer) = unparsed::answer(parsers, corr_id.as_str())?;
        self.app.refused(&refusal);
        tracing::debug!(corr_id = corr_id.as_str(), code = %refusal.code, "refused by its head");
        Some(answer)
    }

    async fn pass(&self, request: Request, corr_id: &CorrId, caller: &Caller) -> Response {
        let until = Instant::now() + self.app.live().config.http.wait_max + ANSWER_TIMEOUT;
        match caller.patience.until(until, self.open(request, corr_id, caller)).await {
            Some(response) => response,
            None => axum::response::IntoResponse::into_response(Refusal::new(
                Code::Unavailable,
                "the store does not answer: whether the request was carried out is unknown, repeat it later",
            )),
        }
    }

    /// Hands a request to its route.
    async fn open(&self, mut request: Request, corr_id: &CorrId, caller: &Caller) -> Response {
        if let Some(express) = &self.express
            && let Some(door) = express::Door::of(&request)
        {
            return express.open(door, request, corr_id, &caller.hung_up).await;
        }
        request.extensions_mut().insert(corr_id.clone());
        request.extensions_mut().insert(HungUp(caller.hung_up.clone()));
        match self.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// How refusals are to be shaped.
fn shape(headers: &HeaderMap) -> Shape {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    match accepts {
        Some(accept) if accept.contains("application/problem+json") => Shape::Problem,
        _ => Shape::Plain,
    }
}

fn made(app: &App) -> CorrId {
    let text = app.corr_id().to_string();
    CorrId(HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("")))
}

/// The correlation id that came, or a new one.
fn corr_id(app: &App, headers: &HeaderMap) -> Result<CorrId, Refusal> {
    let Some(given) = headers.get(CORR_ID) else { return Ok(made(app)) };
    let is_uuid = given.to_str().is_ok_and(|text| text.parse::<Uid>().is_ok());
    if !is_uuid {
        return Err(Refusal::schema("X-Corr-Id is not a UUID: leave it out, and one is made"));
    }
    Ok(CorrId(given.clone()))
}
