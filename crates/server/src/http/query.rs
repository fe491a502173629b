//! Query strings.

use std::error::Error as _;

use axum::http::Uri;
use serde::de::DeserializeOwned;

use super::api_error::ApiError;
use super::parse_error::{self, Root};

/// An error in a query string.
type QueryError = serde_path_to_error::Error<serde::de::value::Error>;

/// Parses the query string.
pub(super) fn parse<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let query = axum::extract::Query::<T>::try_from_uri(uri);
    query.map(|query| query.0).map_err(|rejection| {
        let mut causes = std::iter::successors(rejection.source(), |cause| (**cause).source());
        let fault = causes.find_map(|cause| cause.downcast_ref::<QueryError>());
        let fault = fault.map(|fault| {
            parse_error::explain(Root::Named("the query string"), fault.path(), &fault.inner().to_string())
        });
        // Other messages of the parser repeat the value, which may be a secret.
        let fault = fault.unwrap_or_else(|| "the query string is invalid".to_owned());
        ApiError::schema(format!("{fault}; see /docs for the query parameters"))
    })
}
