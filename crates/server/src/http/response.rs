//! Responses, whole or streamed.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};

/// The body of a response: all of it, or a stream.
pub(crate) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, io::Error>>;
pub(super) type Response = hyper::Response<Body>;

/// A response with this content.
pub(super) fn whole(content: impl Into<Bytes>, content_type: &'static str) -> Response {
    of_type(Either::Left(Full::new(content.into())), content_type)
}

/// A response that ends when the stream ends.
pub(super) fn stream(content: UnsyncBoxBody<Bytes, io::Error>, content_type: &'static str) -> Response {
    of_type(Either::Right(content), content_type)
}

/// A response without content.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn of_type(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
