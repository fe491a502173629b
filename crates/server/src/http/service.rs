//! The HTTP service of a listener: checks, dispatch, timeout, metrics, error format and headers of every request and
//! response.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::Request;
use hyper::header::{ACCEPT, CONNECTION, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use oncebox_capability::MessageFacts;
use oncebox_wire::ErrorCode;
use tokio::time::Instant;
use tokio_rustls::rustls::ServerConfig;

use super::api_error::{ApiError, ErrorFormat};
use super::app::App;
use super::call::Call;
use super::corr_id::{CORR_ID, CorrId};
use super::docs_page::Documents;
use super::head::AllowedHosts;
use super::response::{self, Response};
use super::routes::{self, Listener, ROUTES, Route};
use super::{authorization, document, head, unparsed};
use crate::access::{Access, AccessRefusal, RequestHead};
use crate::config_handle::ActiveConfig;
use crate::net::{self, Caller, RequestBody, Timeouts, Transport};
use crate::server_metrics::RouteMetrics;

/// Maximum time to answer a request, in addition to `http.wait_max`.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves the requests of a listener.
pub(crate) struct HttpService {
    app: App,
    listener: Listener,
    documents: Documents,
    /// By operation. Routes that are not fast are used rarely, and have no metrics until then.
    metrics: Vec<OnceLock<RouteMetrics>>,
}

impl HttpService {
    pub(super) fn new(app: App, listener: Listener) -> Self {
        let metrics = |route: &Route| {
            if route.is_fast { OnceLock::from(RouteMetrics::new(route.path)) } else { OnceLock::new() }
        };
        let metrics = ROUTES.iter().map(metrics).collect();
        Self { app, listener, documents: Documents::new(document::of(listener)), metrics }
    }

    /// Checks a request, dispatches it to its route and records the result.
    async fn dispatch(
        &self,
        (parts, body): (Parts, RequestBody),
        active: &ActiveConfig,
        corr_id: &CorrId,
        caller: &Caller,
    ) -> Result<Response, ApiError> {
        let Parts { method, uri, headers, .. } = parts;
        let is_trusted = active.keys.is_none() && caller.peer.transport == Transport::Tcp;
        let hosts = if is_trusted { AllowedHosts::Local } else { AllowedHosts::Any };
        head::check(hosts, &uri, &headers)?;
        let route = self.listener.route(&method, uri.path())?;
        let access = self.admit(route, &headers, active, caller)?;
        let began = Instant::now();
        let deadline = began + active.config.http.wait_max + RESPONSE_TIMEOUT;
        let (app, documents, gone) = (&self.app, &self.documents, &caller.gone);
        let call = Call { app, active, documents, corr_id, access: &access, gone, headers, uri, body };
        let answered = caller.timeout.run_until(deadline, routes::run(route.operation, call)).await;
        let result = answered.unwrap_or_else(|| {
            let text =
                "the store did not answer in time: the outcome of the request is unknown, retry it later";
            Err(ApiError::new(ErrorCode::Unavailable, text))
        });
        debug_assert!(
            result.is_err() || access.limits().is_none_or(|grant| grant.is_checked()),
            "{} answered without checking the messages of the request",
            route.path
        );
        let status = result.as_ref().map_or_else(ApiError::status, Response::status);
        let metrics = self.metrics[route.operation as usize].get_or_init(|| RouteMetrics::new(route.path));
        metrics.record(route.method_label(&method), status.as_u16(), began.elapsed());
        result
    }
}

impl HttpService {
    /// What the token of a request allows, before its body is read.
    fn admit(
        &self,
        route: &Route,
        headers: &HeaderMap,
        active: &ActiveConfig,
        caller: &Caller,
    ) -> Result<Access, ApiError> {
        let Some(requirement) = route.requirement else { return Ok(Access::Open) };
        let access = match (&active.keys, &self.app.access) {
            (None, None) => Access::Open,
            (Some(keys), Some(control)) => {
                let head = RequestHead {
                    token: authorization::bearer_token(headers),
                    client: caller.peer.address,
                    payload_bytes_min: authorization::announced_payload(headers),
                    now: self.app.now_seconds(),
                };
                control.admit(keys, &active.config.auth, requirement, &head)?
            }
            _ => return Err(AccessRefusal::NoToken.into()),
        };
        if !requirement.is_about_messages {
            access.check(&MessageFacts::default())?;
        }
        Ok(access)
    }
}

impl net::Service for HttpService {
    type Body = response::Body;

    fn timeouts(&self) -> Timeouts {
        let http = &self.app.active().config.http;
        Timeouts { idle: http.idle_timeout, head: http.header_timeout, write: http.write_timeout }
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.app.active().tls.clone()
    }

    async fn respond(&self, request: Request<RequestBody>, caller: &Caller) -> Response {
        let active = self.app.active();
        let (parts, body) = request.into_parts();
        let format = error_format(&parts.headers);
        let (corr_id, result) = match CorrId::of(&self.app, &parts.headers) {
            Ok(corr_id) => {
                let result = self.dispatch((parts, body), &active, &corr_id, caller).await;
                (corr_id, result)
            }
            Err(error) => (CorrId::new(&self.app), Err(error)),
        };
        let mut response = result.unwrap_or_else(|error| {
            self.app.record_error(&error);
            tracing::debug!(corr_id = corr_id.as_str(), code = %error.code, "request rejected");
            error.render(corr_id.as_str(), format)
        });
        response.headers_mut().insert(CORR_ID, corr_id.into_header());
        // Keeps browsers from guessing another content type.
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // With amnesia: received data stays in the buffer of a connection until that is closed.
        if self.app.stopping.is_cancelled() || active.config.amnesia {
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
