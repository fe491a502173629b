//! The doors that every message passes, opened by the gate itself. The router would box each request and its answer several
//! times over, which costs as much as taking a message in. It still knows these doors, for the document and for wrong methods.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use oncebox_wire::path;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::gate::CorrId;
use super::mailbox::{receive, send, settle};
use crate::meters::RouteMeters;

/// One of these doors; all are opened with POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Send,
    SendBatch,
    Recv,
    Work,
    Settle,
}

impl Door {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Send, path::SEND),
        (Self::SendBatch, path::SEND_BATCH),
        (Self::Recv, path::RECV),
        (Self::Work, path::WORK),
        (Self::Settle, path::SETTLE),
    ];

    /// The door that a request is for, if it is one of these.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let path = request.uri().path();
        let door = Self::ALL.into_iter().find(|(_, known)| *known == path)?.0;
        (request.method() == Method::POST).then_some(door)
    }
}

/// These doors, with their metrics.
#[derive(Clone)]
pub(super) struct Express {
    app: App,
    meters: [Arc<RouteMeters>; Door::ALL.len()],
}

impl Express {
    pub(super) fn new(app: App) -> Self {
        let meters = Door::ALL.map(|(_, path)| app.meters.route(path));
        Self { app, meters }
    }

    pub(super) async fn open(
        &self,
        door: Door,
        request: Request,
        corr_id: &CorrId,
        hung_up: &CancellationToken,
    ) -> Response {
        let began = Instant::now();
        let answered = match door {
            Door::Send => send::one(&self.app, corr_id, request).await,
            Door::SendBatch => send::many(&self.app, corr_id, request).await,
            Door::Recv => receive::messages(&self.app, hung_up, request).await,
            Door::Work => receive::round(&self.app, hung_up, request).await,
            Door::Settle => settle::settle(State(self.app.clone()), request).await,
        };
        let response = answered.into_response();
        self.meters[door as usize].answered("POST", response.status().as_u16(), began.elapsed());
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::Method;

    use super::Door;

    fn request(method: Method, uri: &str) -> Request {
        Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
    }

    /// Whoever has another method is for the router, which knows what to answer.
    #[test]
    fn each_door_is_described_and_opened_with_post_only() {
        let document = serde_json::to_value(crate::document()).unwrap();
        for (place, (door, path)) in Door::ALL.into_iter().enumerate() {
            assert_eq!(door as usize, place, "meters are found by place");
            assert!(document["paths"][path]["post"].is_object(), "{path}");
            assert_eq!(Door::of(&request(Method::POST, path)), Some(door));
            assert_eq!(Door::of(&request(Method::POST, &format!("{path}?query"))), Some(door));
            assert_eq!(Door::of(&request(Method::GET, path)), None);
            assert_eq!(Door::of(&request(Method::POST, &format!("{path}/"))), None);
        }
    }
}
