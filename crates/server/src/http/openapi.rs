//! The description of all doors, for programs and for people.

mod refusals;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use utoipa::openapi::{OpenApi, Server};

use super::page;
pub(super) use refusals::{
    Duplicate, HeadRefusals, Integrity, NotFound, NotHeld, ReadRefusals, Refusals, describe,
};

/// The document, and the page for people; made once.
#[derive(Clone)]
pub(super) struct Documents {
    json: bytes::Bytes,
    page: bytes::Bytes,
}

impl Documents {
    pub(super) fn new(mut document: OpenApi) -> Self {
        // A client that reads it has reached the server by some address: that is the one to call.
        document.servers = Some(vec![Server::new("/")]);
        let json = document.to_pretty_json().unwrap_or_default() + "\n";
        Self { json: json.into(), page: page::render(&document).into() }
    }
}

pub(super) async fn json(State(documents): State<Documents>) -> Response {
    let mut response = Response::new(documents.json.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) async fn docs(State(documents): State<Documents>) -> Response {
    let mut response = Response::new(documents.page.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // The page needs nothing but itself.
    let policy =
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    headers.insert(axum::http::header::CONTENT_SECURITY_POLICY, policy);
    response
}
