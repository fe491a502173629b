//! Calls that tell how the server is.

use hyper::StatusCode;
use oncebox_wire::{Live, Ready, path};

use crate::call::{Call, decode};
use crate::client::Client;
use crate::error::Error;

/// # Health
impl Client {
    /// Whether the process lives.
    pub async fn live(&self) -> Result<Live, Error> {
        self.ask(Call::get(path::HEALTHZ.to_owned())).await
    }

    /// Whether the server can work, and what is missing. That it cannot is an answer, not an error.
    pub async fn ready(&self) -> Result<Ready, Error> {
        let welcome = |status: StatusCode| status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE;
        let (_, bytes, corr_id) = self.fetch(Call::get(path::READYZ.to_owned()), welcome).await?;
        decode(&bytes).map_err(|error| error.of_call(&corr_id))
    }

    /// Metrics as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String, Error> {
        let call = Call::get(path::METRICS.to_owned());
        let (_, bytes, corr_id) = self.fetch(call, |status| status.is_success()).await?;
        String::from_utf8(bytes.into())
            .map_err(|_| Error::malformed("the metrics are not text").of_call(&corr_id))
    }
}
