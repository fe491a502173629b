//! Query strings.

use hyper::Uri;
use serde::de::DeserializeOwned;

use super::api_error::ApiError;
use super::parse_error::{self, Root};

/// Parses the query string. Errors do not repeat its values, which may be secrets.
pub(super) fn parse<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let parsed = serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs));
    parsed.map_err(|error| {
        let root = Root::Named("the query string");
        let fault = parse_error::explain(root, error.path(), &error.inner().to_string());
        ApiError::schema(format!("{fault}; see /docs for the query parameters"))
    })
}
