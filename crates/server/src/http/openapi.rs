//! The description of all doors, for programs and for people.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use oncebox_wire::{Code, ErrorBody};
use utoipa::openapi::{Content, OpenApi, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::page;

/// The answers that every door may give beside its own.
pub(super) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut by_status = std::collections::BTreeMap::<u16, Vec<Code>>::new();
        for (code, _, status) in Code::ALL {
            by_status.entry(status).or_default().push(code);
        }
        by_status.entry(415).or_default().push(Code::Schema);
        let responses = by_status.into_iter().map(|(status, codes)| {
            let names: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
            let content = Content::new(Some(ErrorBody::schema_ref()));
            let response =
                ResponseBuilder::new().description(names.join(", ")).content("application/json", content);
            (status.to_string(), RefOr::T(response.build()))
        });
        responses.collect()
    }
}

/// A reference to the schema of errors.
trait SchemaRef: PartialSchema + ToSchema {
    fn schema_ref() -> RefOr<utoipa::openapi::Schema> {
        RefOr::Ref(utoipa::openapi::Ref::from_schema_name(Self::name()))
    }
}

impl SchemaRef for ErrorBody {}

/// The document, and the page for people; made once.
#[derive(Clone)]
pub(super) struct Documents {
    json: bytes::Bytes,
    page: bytes::Bytes,
}

impl Documents {
    pub(super) fn new(document: &OpenApi) -> Self {
        let json = document.to_pretty_json().unwrap_or_default();
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
