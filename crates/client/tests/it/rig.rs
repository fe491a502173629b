//! A server on a real socket that gives out prepared answers and remembers what it was asked.

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

/// A prepared answer.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Text(u16, String),
    /// With `Retry-After`.
    Later(u16, u64),
    /// The connection breaks instead.
    Break,
}

impl Answer {
    pub(crate) fn ok(json: &str) -> Self {
        Self::Text(200, json.to_owned())
    }

    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = format!(r#"{{"code":"{code}","message":"why: do this","corr_id":"server-id"}}"#);
        Self::Text(status, body)
    }
}

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Asked {
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
    answers: VecDeque<Answer>,
    asked: Vec<Asked>,
}

#[derive(Clone, Default)]
pub(crate) struct Rig {
    script: Arc<Mutex<Script>>,
}

impl Rig {
    pub(crate) fn of(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Script { answers: answers.into_iter().collect(), asked: Vec::new() };
        Self { script: Arc::new(Mutex::new(script)) }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.lock().expect("nobody panicked").asked.clone()
    }

    pub(crate) fn app(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    /// Listens on a free port; the address.
    pub(crate) async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let app = self.app();
        tokio::spawn(async move { axum::serve(listener, app).await.expect("a socket") });
        address
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(&self.listen().await).expect("a right address")
    }
}

async fn answer(
    State(rig): State<Rig>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8(body.to_vec()).expect("requests are text");
    let answer = {
        let mut script = rig.script.lock().expect("nobody panicked");
        script.asked.push(Asked { method, uri, headers, body });
        script.answers.pop_front()
    };
    match answer {
        Some(Answer::Text(status, text)) => {
            (StatusCode::from_u16(status).expect("a status"), text).into_response()
        }
        Some(Answer::Later(status, seconds)) => {
            (StatusCode::from_u16(status).expect("a status"), [("retry-after", seconds.to_string())])
                .into_response()
        }
        // A body that fails in its middle closes the connection.
        Some(Answer::Break) => Response::new(broken()),
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
            // What is there so far leaves before the failure.
            2 => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
        }
    }
}
