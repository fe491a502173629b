//! A request to a route.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::{HeaderMap, Uri};
use oncebox::message::Namespace;
use oncebox_capability::{ApiNamespace, MessageFacts};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::api_error::ApiError;
use super::app::App;
use super::body::{self, BodyKind, Permit};
use super::corr_id::CorrId;
use super::docs_page::Documents;
use super::percent;
use crate::access::Access;
use crate::config_handle::ActiveConfig;
use crate::net::RequestBody;

/// A request whose head was checked, and what the handler of its route needs.
pub(super) struct Call<'a> {
    pub(super) app: &'a App,
    /// The configuration for this request.
    pub(super) active: &'a ActiveConfig,
    pub(super) documents: &'a Documents,
    pub(super) corr_id: &'a CorrId,
    /// What the token of the request allows.
    pub(super) access: &'a Access,
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

    /// Checks whether the token allows a request about a topic, or about all topics.
    pub(super) fn check_topic(&self, topic: Option<&str>) -> Result<(), ApiError> {
        Ok(self.access.check(&MessageFacts { topic, ..MessageFacts::default() })?)
    }

    /// Checks whether the token allows a request about a topic of this namespace, or about all of its topics.
    pub(super) fn check_in(&self, namespace: Namespace, topic: Option<&str>) -> Result<(), ApiError> {
        let namespace = api_namespace(namespace);
        Ok(self.access.check(&MessageFacts { namespace, topic, ..MessageFacts::default() })?)
    }

    /// Says that the request is about no message at all.
    pub(super) fn nothing_to_check(&self) {
        if let Some(grant) = self.access.limits() {
            grant.needs_no_check();
        }
    }

    /// Checks whether the token allows to send a message.
    pub(super) fn check_message(&self, topic: &str, payload: &[u8]) -> Result<(), ApiError> {
        let (topic, payload_bytes) = (Some(topic), payload.len() as u64);
        Ok(self.access.check(&MessageFacts { topic, payload_bytes, ..MessageFacts::default() })?)
    }

    /// Runs a receive that ends when `gone` is cancelled; cancels that when the token of the request ends.
    pub(super) async fn until_token_ends<T>(
        &self,
        gone: &CancellationToken,
        receive: impl Future<Output = T>,
    ) -> T {
        let (Some(grant), Some(control)) = (self.access.limits(), &self.app.access) else {
            return receive.await;
        };
        let (age_max, now) = (self.active.config.auth.cap_cache_ttl, || self.app.now_seconds());
        let ends = control.until_end(grant, age_max, now, |key| self.app.accepts_key(key));
        tokio::pin!(receive);
        tokio::select! {
            biased;
            received = &mut receive => return received,
            () = ends => gone.cancel(),
        }
        receive.await
    }

    /// Counts messages against the rate of the token.
    pub(super) fn count(&self, messages: usize) -> Result<(), ApiError> {
        match &self.app.access {
            Some(control) => Ok(control.count(self.access, messages)?),
            None => Ok(()),
        }
    }

    /// Counts messages that were received.
    pub(super) fn received(&self, messages: usize) {
        if let (Some(control), Some(grant)) = (&self.app.access, self.access.limits()) {
            control.received(grant, messages);
        }
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

fn api_namespace(namespace: Namespace) -> Option<ApiNamespace> {
    ApiNamespace::from_name(namespace.as_str())
}
