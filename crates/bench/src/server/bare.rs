//! The limit: an endpoint that parses the same request and writes the same response as our server, and does nothing in
//! between. It stores nothing and detects no duplicates.

use std::process::ExitCode;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use oncebox_wire::{mailbox, path};
use tokio::net::TcpListener;

/// Runs the process; its only argument is the port.
pub(crate) fn run(argument: Option<String>) -> ExitCode {
    let Some(port) = argument.and_then(|port| port.parse().ok()) else {
        eprintln!("`bare` is started by the benchmark `server`, with a port");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(port))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let listener = listener.tap_io(|stream| {
        // Without this option, responses are only slower.
        let _ = stream.set_nodelay(true);
    });
    let router = Router::new().route(path::SEND, post(send)).route(path::READYZ, get(async || ()));
    axum::serve(listener, router).await
}

async fn send(body: Bytes) -> Response {
    let Ok(_message) = serde_json::from_slice::<mailbox::SendRequest>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let sent = mailbox::SendResponse {
        msg_id: "01JCKZ0000000000000000000".to_owned(),
        duplicate: false,
        dedup_until: "2026-01-01T00:00:00.000Z".to_owned(),
    };
    let json = serde_json::to_vec(&sent).expect("a response is JSON");
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
