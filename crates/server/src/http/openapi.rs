//! The description of all doors, for programs and for people.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use oncebox_wire::{Code, ErrorBody};
use utoipa::openapi::{Content, OpenApi, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use super::page;

/// The answers that every door may give beside its own.
pub(super) struct Refusals;

impl Refusals {
    fn by_status() -> BTreeMap<u16, Vec<Code>> {
        let mut by_status = BTreeMap::<u16, Vec<Code>>::new();
        for (code, _, status) in Code::ALL {
            by_status.entry(status).or_default().push(code);
        }
        // A body that is announced as something else is wrong in a way that HTTP has a status for.
        by_status.entry(415).or_default().push(Code::Schema);
        by_status
    }

    /// Each of them once, for the routes to point at.
    pub(super) fn describe(document: &mut OpenApi) {
        let responses = &mut document.components.get_or_insert_default().responses;
        for (status, codes) in Self::by_status() {
            let names: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
            let body = utoipa::openapi::Ref::from_schema_name(ErrorBody::name());
            let content = Content::new(Some(RefOr::Ref(body)));
            let response =
                ResponseBuilder::new().description(names.join(", ")).content("application/json", content);
            responses.insert(name(status), RefOr::T(response.build()));
        }
    }
}

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let response = |status: u16| RefOr::Ref(utoipa::openapi::Ref::from_response_name(name(status)));
        Self::by_status().into_keys().map(|status| (status.to_string(), response(status))).collect()
    }
}

fn name(status: u16) -> String {
    format!("Refused{status}")
}

/// The document, and the page for people; made once.
#[derive(Clone)]
pub(super) struct Documents {
    json: bytes::Bytes,
    page: bytes::Bytes,
}

impl Documents {
    pub(super) fn new(document: &OpenApi) -> Self {
        let json = document.to_pretty_json().unwrap_or_default() + "\n";
        Self { json: json.into(), page: page::render(document).into() }
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
