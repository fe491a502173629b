//! The endpoints of the message path, which bypass the router. The router would box each request and its response
//! several times, which costs as much as accepting a message. It still has these routes, for the OpenAPI document and
//! for other methods.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use oncebox_wire::path;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::corr_id::CorrId;
use super::mailbox::{receive, send, settle};
use crate::server_metrics::RouteMetrics;

/// A route of the fast path; all use POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FastRoute {
    Send,
    SendBatch,
    Recv,
    Work,
    Settle,
}

impl FastRoute {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Send, path::SEND),
        (Self::SendBatch, path::SEND_BATCH),
        (Self::Recv, path::RECV),
        (Self::Work, path::WORK),
        (Self::Settle, path::SETTLE),
    ];

    /// The fast route of a request, if it has one.
    pub(super) fn find(request: &Request) -> Option<Self> {
        let path = request.uri().path();
        let route = Self::ALL.into_iter().find(|(_, known)| *known == path)?.0;
        (request.method() == Method::POST).then_some(route)
    }
}

/// The fast routes and their metrics.
#[derive(Clone)]
pub(super) struct FastPath {
    app: App,
    metrics: [Arc<RouteMetrics>; FastRoute::ALL.len()],
}

impl FastPath {
    pub(super) fn new(app: App) -> Self {
        let metrics = FastRoute::ALL.map(|(_, path)| app.metrics.route(path));
        Self { app, metrics }
    }

    pub(super) async fn serve(
        &self,
        route: FastRoute,
        request: Request,
        corr_id: &CorrId,
        hung_up: &CancellationToken,
    ) -> Response {
        let began = Instant::now();
        let result = match route {
            FastRoute::Send => send::handle_send(&self.app, corr_id, request).await,
            FastRoute::SendBatch => send::handle_send_batch(&self.app, corr_id, request).await,
            FastRoute::Recv => receive::handle_recv(&self.app, hung_up, request).await,
            FastRoute::Work => receive::handle_work(&self.app, hung_up, request).await,
            FastRoute::Settle => settle::settle(State(self.app.clone()), request).await,
        };
        let response = result.into_response();
        self.metrics[route as usize].record("POST", response.status().as_u16(), began.elapsed());
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::Method;

    use super::FastRoute;

    fn request(method: Method, uri: &str) -> Request {
        Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
    }

    /// Requests with other methods go to the router, which rejects them.
    #[test]
    fn each_fast_route_is_documented_and_uses_post_only() {
        let document = serde_json::to_value(crate::document()).unwrap();
        for (index, (route, path)) in FastRoute::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, index, "metrics are indexed by route");
            assert!(document["paths"][path]["post"].is_object(), "{path}");
            assert_eq!(FastRoute::find(&request(Method::POST, path)), Some(route));
            assert_eq!(FastRoute::find(&request(Method::POST, &format!("{path}?query"))), Some(route));
            assert_eq!(FastRoute::find(&request(Method::GET, path)), None);
            assert_eq!(FastRoute::find(&request(Method::POST, &format!("{path}/"))), None);
        }
    }
}
