//! The OpenAPI document, as JSON and as an HTML page.

mod errors;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use utoipa::openapi::{OpenApi, Server};

use super::docs_page;
pub(super) use errors::{
    BodyErrors, Duplicate, HeadErrors, Integrity, NotFound, NotHeld, ReadErrors, describe,
};

/// The rendered document and page; rendered once.
#[derive(Clone)]
pub(super) struct Documents {
    json: bytes::Bytes,
    page: bytes::Bytes,
}

impl Documents {
    pub(super) fn new(mut document: OpenApi) -> Self {
        // A client that reads the document has reached the server by some URL, which is the one to use.
        document.servers = Some(vec![Server::new("/")]);
        let json = document.to_pretty_json().unwrap_or_default() + "\n";
        Self { json: json.into(), page: docs_page::render(&document).into() }
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
    // The page loads nothing else.
    let policy =
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    headers.insert(axum::http::header::CONTENT_SECURITY_POLICY, policy);
    response
}
