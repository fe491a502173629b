//! The HTTP service: checks, timeout, error format and headers that apply to every request and response.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{ACCEPT, ALLOW, CONNECTION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use oncebox_core::{Trace, Uid};
use oncebox_wire::{ErrorCode, header};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::api_error::{ApiError, ErrorFormat};
use super::app::App;
use super::fast_path::{FastPath, FastRoute};
use super::head;
use super::unparsed;
use crate::net::ReusableTimeout;

/// Maximum time to answer a request, in addition to `http.wait_max`.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A constant, so that the name is not parsed for every response.
const CORR_ID: HeaderName = HeaderName::from_static(header::CORR_ID);

/// The transport of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
}

/// Correlates a request with its response, its message and the logs.
#[derive(Debug, Clone)]
pub(super) struct CorrId(HeaderValue);

impl CorrId {
    pub(super) fn as_str(&self) -> &str {
        // It is always a UUID.
        self.0.to_str().unwrap_or_default()
    }

    /// The trace of messages that have no correlation id of their own.
    pub(super) fn trace(&self) -> Trace {
        Trace::default().with_correlation(self.as_str()).unwrap_or_default()
    }
}

/// The client of a connection.
pub(crate) struct Caller {
    pub(crate) transport: Transport,
    pub(crate) timeout: ReusableTimeout,
    /// Cancelled once the client has closed its sending side: it may be gone, so the server does not wait on its
    /// behalf.
    pub(crate) hung_up: CancellationToken,
}

/// [`Caller::hung_up`], for routes that wait.
#[derive(Clone)]
pub(super) struct HungUp(pub(super) CancellationToken);

/// The routes of a listener, with everything that applies to all of them.
#[derive(Clone)]
pub(crate) struct HttpService {
    app: App,
    /// The fast path, for listeners that serve messages.
    fast_path: Option<FastPath>,
    router: Router,
}

impl HttpService {
    /// The service of a listener with all routes.
    pub(super) fn new(app: App, router: Router) -> Self {
        Self { fast_path: Some(FastPath::new(app.clone())), app, router }
    }

    /// The service of a listener with the routes of the router only.
    pub(super) fn limited(app: App, router: Router) -> Self {
        Self { fast_path: None, app, router }
    }

    /// Answers a request; always returns a response.
    pub(crate) async fn respond(&self, request: Request, caller: &Caller) -> Response {
        let format = error_format(request.headers());
        let (corr_id, checked) = match corr_id(&self.app, request.headers()) {
            Ok(corr_id) => (corr_id, head::check(caller.transport, &request)),
            Err(error) => (new_corr_id(&self.app), Err(error)),
        };
        let mut response = match checked {
            Ok(()) => self.route_with_timeout(request, &corr_id, caller).await,
            Err(error) => axum::response::IntoResponse::into_response(error),
        };
        if let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() {
            self.app.record_error(&error);
            tracing::debug!(corr_id = corr_id.as_str(), code = %error.code, "request rejected");
            let allow = response.headers_mut().remove(ALLOW);
            response = error.render(corr_id.as_str(), format);
            // The router has determined the allowed methods.
            if let Some(allow) = allow {
                response.headers_mut().insert(ALLOW, allow);
            }
        }
        response.headers_mut().insert(CORR_ID, corr_id.0);
        // Keeps browsers from guessing another content type.
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // With amnesia: received data stays in the buffer of a connection until that is closed.
        if self.app.stopping.is_cancelled() || self.app.active().config.amnesia {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Returns the replacement for a response that the HTTP parser wrote to a malformed head; `None` if the bytes are
    /// no such response.
    pub(crate) fn reject_head(&self, parser_response: &[u8]) -> Option<Vec<u8>> {
        let corr_id = new_corr_id(&self.app);
        let (error, response) = unparsed::response(parser_response, corr_id.as_str())?;
        self.app.record_error(&error);
        tracing::debug!(corr_id = corr_id.as_str(), code = %error.code, "malformed request head rejected");
        Some(response)
    }

    async fn route_with_timeout(&self, request: Request, corr_id: &CorrId, caller: &Caller) -> Response {
        let deadline = Instant::now() + self.app.active().config.http.wait_max + RESPONSE_TIMEOUT;
        match caller.timeout.run_until(deadline, self.route(request, corr_id, caller)).await {
            Some(response) => response,
            None => axum::response::IntoResponse::into_response(ApiError::new(
                ErrorCode::Unavailable,
                "the store did not answer in time: the outcome of the request is unknown, retry it later",
            )),
        }
    }

    /// Dispatches a request to its route.
    async fn route(&self, mut request: Request, corr_id: &CorrId, caller: &Caller) -> Response {
        if let Some(fast_path) = &self.fast_path
            && let Some(route) = FastRoute::find(&request)
        {
            return fast_path.serve(route, request, corr_id, &caller.hung_up).await;
        }
        request.extensions_mut().insert(corr_id.clone());
        request.extensions_mut().insert(HungUp(caller.hung_up.clone()));
        match self.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// The error format that the client accepts.
fn error_format(headers: &HeaderMap) -> ErrorFormat {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    match accepts {
        Some(accept) if accept.contains("application/problem+json") => ErrorFormat::Problem,
        _ => ErrorFormat::Plain,
    }
}

fn new_corr_id(app: &App) -> CorrId {
    let text = app.corr_id().to_string();
    CorrId(HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("")))
}

/// The correlation id of the request, or a new one.
fn corr_id(app: &App, headers: &HeaderMap) -> Result<CorrId, ApiError> {
    let Some(received) = headers.get(CORR_ID) else { return Ok(new_corr_id(app)) };
    let is_uuid = received.to_str().is_ok_and(|text| text.parse::<Uid>().is_ok());
    if !is_uuid {
        return Err(ApiError::schema("X-Corr-Id is not a UUID: send a UUID, or omit the header"));
    }
    Ok(CorrId(received.clone()))
}
