//! Health and metrics.

use hyper::StatusCode;
use oncebox_wire::{LiveResponse, ReadyResponse, path};

use crate::call::{Call, decode};
use crate::client::Client;
use crate::error::ClientError;

/// # Health
impl Client {
    /// Checks that the server process is alive.
    pub async fn live(&self) -> Result<LiveResponse, ClientError> {
        self.call(Call::get(path::HEALTHZ.to_owned())).await
    }

    /// The readiness of the server, and what is missing. Not being ready is a response, not an error.
    pub async fn ready(&self) -> Result<ReadyResponse, ClientError> {
        let is_expected =
            |status: StatusCode| status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE;
        let (_, bytes, corr_id) = self.fetch(Call::get(path::READYZ.to_owned()), is_expected).await?;
        decode(&bytes).map_err(|error| error.with_corr_id(&corr_id))
    }

    /// Metrics in the Prometheus text format.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let call = Call::get(path::METRICS.to_owned());
        let (_, bytes, corr_id) = self.fetch(call, |status| status.is_success()).await?;
        String::from_utf8(bytes.into())
            .map_err(|_| ClientError::malformed("the metrics are not valid UTF-8").with_corr_id(&corr_id))
    }
}
