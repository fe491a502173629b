//! A request to a route.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::{HeaderMap, Uri};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::api_error::ApiError;
use super::app::App;
use super::body::{self, BodyKind, Permit};
use super::corr_id::CorrId;
use super::docs_page::Documents;
use super::percent;
use crate::config_handle::ActiveConfig;
use crate::net::RequestBody;

/// A request whose head was checked, and what the handler of its route needs.
pub(super) struct Call<'a> {
    pub(super) app: &'a App,
    /// The configuration for this request.
    pub(super) active: &'a ActiveConfig,
    pub(super) documents: &'a Documents,
    pub(super) corr_id: &'a CorrId,
    /// [`Caller::gone`](crate::net::Caller::gone).
    pub(super) gone: &'a CancellationToken,
    pub(super) headers: HeaderMap,
    pub(super) uri: Uri,
    pub(super) body: RequestBody,
}

impl Call<'_> {
    /// The parameter of the route, decoded. It is the last segment of the path.
    pub(super) fn parameter(&self) -> Cow<'_, str> {
        let path = self.uri.path();
        let segment = path.rsplit_once('/').map_or(path, |(_, segment)| segment);
        // Paths that cannot be decoded are rejected before.
        percent::decode(segment).unwrap_or_default()
    }

    /// Reads and parses JSON about a single message.
    pub(super) async fn read_json<T: DeserializeOwned>(&mut self) -> Result<(T, Permit), ApiError> {
        let limit = self.active.single_body_limit();
        self.app.body_budget.read_json(&self.headers, &mut self.body, limit).await
    }

    /// Reads and parses JSON; no body and `null` yield the default.
    pub(super) async fn read_optional_json<T: DeserializeOwned + Default>(&mut self) -> Result<T, ApiError> {
        let limit = self.active.single_body_limit();
        self.app.body_budget.read_optional_json(&self.headers, &mut self.body, limit).await
    }

    /// Reads JSON about a single message without parsing it.
    pub(super) async fn read_unparsed(&mut self) -> Result<(Bytes, Permit), ApiError> {
        let limit = self.active.single_body_limit();
        self.app.body_budget.read_unparsed(&self.headers, &mut self.body, limit).await
    }

    /// Reads JSON about many messages without parsing it.
    pub(super) async fn read_batch(&mut self) -> Result<(Bytes, Permit), ApiError> {
        let limit = self.active.batch_body_limit();
        self.app.body_budget.read_unparsed(&self.headers, &mut self.body, limit).await
    }

    /// Reads JSON or bytes about a single message.
    pub(super) async fn read_any(&mut self) -> Result<(BodyKind, Bytes, Permit), ApiError> {
        let kind = match body::kind(&self.headers) {
            Ok(kind) => kind,
            Err(error) => return Err(body::discard(&self.headers, &mut self.body, error).await),
        };
        let limit = self.active.single_body_limit();
        let (bytes, permit) = self.app.body_budget.read(&self.headers, &mut self.body, limit).await?;
        Ok((kind, bytes, permit))
    }
}
