//! A server on a real socket that sends prepared replies and records the requests.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use oncebox_client::Client;
use tokio::net::TcpListener;

/// A prepared reply.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Text(u16, String),
    /// A status with `Retry-After`, in seconds.
    RetryAfter(u16, u64),
    /// The connection is closed during the reply.
    Disconnect,
}

impl Reply {
    pub(crate) fn ok(json: &str) -> Self {
        Self::Text(200, json.to_owned())
    }

    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = format!(r#"{{"code":"{code}","message":"why: do this","corr_id":"server-id"}}"#);
        Self::Text(status, body)
    }
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are text"))
    }

    pub(crate) fn json(&self, field: &str) -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("the body is JSON");
        body[field].clone()
    }
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    requests: Vec<RecordedRequest>,
}

#[derive(Clone, Default)]
pub(crate) struct ScriptedServer {
    script: Arc<Mutex<Script>>,
}

impl ScriptedServer {
    pub(crate) fn of(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script { replies: replies.into_iter().collect(), requests: Vec::new() };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.script.lock().expect("no other thread panicked").requests.clone()
    }

    pub(crate) fn app(&self) -> Router {
        Router::new().fallback(reply).with_state(self.clone())
    }

    /// Listens on a free port. Returns the address.
    pub(crate) async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let app = self.app();
        tokio::spawn(async move { axum::serve(listener, app).await.expect("a socket") });
        address
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(&self.listen().await).expect("a valid address")
    }
}

async fn reply(
    State(server): State<ScriptedServer>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8(body.to_vec()).expect("requests are text");
    let reply = {
        let mut script = server.script.lock().expect("no other thread panicked");
        script.requests.push(RecordedRequest { method, uri, headers, body });
        script.replies.pop_front()
    };
    match reply {
        Some(Reply::Text(status, text)) => {
            (StatusCode::from_u16(status).expect("a status"), text).into_response()
        }
        Some(Reply::RetryAfter(status, seconds)) => {
            (StatusCode::from_u16(status).expect("a status"), [("retry-after", seconds.to_string())])
                .into_response()
        }
        // A body that fails halfway closes the connection.
        Some(Reply::Disconnect) => Response::new(broken()),
        None => (StatusCode::NOT_IMPLEMENTED, "the script is over").into_response(),
    }
}

fn broken() -> Body {
    Body::new(Broken { polls: 0 })
}

/// Sends an empty line, then fails.
struct Broken {
    polls: u32,
}

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.polls += 1;
        match self.polls {
            1 => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"\n"))))),
            // Lets the first line be sent before the failure.
            2 => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
        }
    }
}
