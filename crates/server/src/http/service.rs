//! The HTTP service: checks, timeout, error format and headers that apply to every request and response.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{ACCEPT, ALLOW, CONNECTION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use oncebox_wire::ErrorCode;
use tokio::time::Instant;
use tower_service::Service;

use super::api_error::{ApiError, ErrorFormat};
use super::app::App;
use super::corr_id::{CORR_ID, CorrId};
use super::fast_path::{FastPath, FastRoute};
use super::head;
use super::mailbox::HungUp;
use super::unparsed;
use crate::net::{self, Caller, Timeouts};

/// Maximum time to answer a request, in addition to `http.wait_max`.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

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

impl net::Service for HttpService {
    fn timeouts(&self) -> Timeouts {
        let http = &self.app.active().config.http;
        Timeouts { idle: http.idle_timeout, head: http.header_timeout, write: http.write_timeout }
    }

    async fn respond(&self, request: Request, caller: &Caller) -> Response {
        let format = error_format(request.headers());
        let (corr_id, checked) = match CorrId::of(&self.app, request.headers()) {
            Ok(corr_id) => (corr_id, head::check(caller.transport, &request)),
            Err(error) => (CorrId::new(&self.app), Err(error)),
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
        response.headers_mut().insert(CORR_ID, corr_id.into_header());
        // Keeps browsers from guessing another content type.
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // With amnesia: received data stays in the buffer of a connection until that is closed.
        if self.app.stopping.is_cancelled() || self.app.active().config.amnesia {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn reject_head(&self, parser_response: &[u8]) -> Option<Vec<u8>> {
        let corr_id = CorrId::new(&self.app);
        let (error, response) = unparsed::response(parser_response, corr_id.as_str())?;
        self.app.record_error(&error);
        tracing::debug!(corr_id = corr_id.as_str(), code = %error.code, "malformed request head rejected");
        Some(response)
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
