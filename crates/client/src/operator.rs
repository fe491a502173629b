//! Operator calls: dead letters, messages in any namespace, counts and statistics.

use oncebox_wire::operator::{
    ByKeyRequest, CountRequest, CountsResponse, ListDeadRequest, ListPausedRequest, ListPausedResponse,
    ListRequest, ListResponse, ListRevocationsResponse, ListTopicsRequest, ListTopicsResponse,
    MessageDetails, PauseRequest, PauseResponse, RedriveRequest, RevocationDetails, RevokeRequest,
    ShowRequest, StatsResponse, SweepRequest, SweepResponse,
};
use oncebox_wire::path;

use crate::call::{Call, json};
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::RetryPolicy;
use crate::target;

/// # Dead letters of the mailbox
impl Client {
    /// Lists dead letters, one page at a time.
    pub async fn dlq(&self, list: &ListDeadRequest) -> Result<ListResponse, ClientError> {
        self.call(Call::get(target::query(path::DLQ, list)?)).await
    }

    /// Shows a dead letter.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if there is no such dead letter.
    pub async fn dead_letter(&self, msg_id: &str, show: &ShowRequest) -> Result<MessageDetails, ClientError> {
        self.call(Call::get(target::query(&target::path(path::DLQ_SHOW, msg_id)?, show)?)).await
    }

    /// Redrives dead letters.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if the topic has no messages, or no message has any of the ids.
    pub async fn redrive_dead_letters(&self, redrive: &RedriveRequest) -> Result<SweepResponse, ClientError> {
        self.call(Call::post(path::DLQ_REDRIVE, retry_policy(redrive.dry_run), json(redrive)?)).await
    }
}

/// # Messages
impl Client {
    /// Lists messages, one page at a time.
    pub async fn messages(&self, list: &ListRequest) -> Result<ListResponse, ClientError> {
        self.call(Call::get(target::query(path::MESSAGES, list)?)).await
    }

    /// Shows all details of a message.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if there is no such message.
    pub async fn message(&self, id: &str, show: &ShowRequest) -> Result<MessageDetails, ClientError> {
        self.call(Call::get(target::query(&target::path(path::MESSAGE, id)?, show)?)).await
    }

    /// Shows the message that has a key.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if no message has the key.
    pub async fn message_by_key(&self, key: &ByKeyRequest) -> Result<MessageDetails, ClientError> {
        self.call(Call::get(target::query(path::MESSAGE_BY_KEY, key)?)).await
    }

    /// Redrives Dead messages.
    ///
    /// # Errors
    /// As [`Client::redrive_dead_letters`].
    pub async fn redrive(&self, sweep: &SweepRequest) -> Result<SweepResponse, ClientError> {
        self.call(Call::post(path::REDRIVE, retry_policy(sweep.dry_run), json(sweep)?)).await
    }

    /// Erases messages completely.
    pub async fn purge(&self, sweep: &SweepRequest) -> Result<SweepResponse, ClientError> {
        self.call(Call::post(path::PURGE, retry_policy(sweep.dry_run), json(sweep)?)).await
    }

    /// Counts messages by state.
    pub async fn counts(&self, count: &CountRequest) -> Result<CountsResponse, ClientError> {
        self.call(Call::get(target::query(path::COUNTS, count)?)).await
    }

    /// Lists topics with their counts, one page at a time.
    pub async fn topics(&self, list: &ListTopicsRequest) -> Result<ListTopicsResponse, ClientError> {
        self.call(Call::get(target::query(path::TOPICS, list)?)).await
    }

    /// Lists paused topics.
    pub async fn paused_topics(&self, list: &ListPausedRequest) -> Result<ListPausedResponse, ClientError> {
        self.call(Call::get(target::query(path::PAUSED_TOPICS, list)?)).await
    }

    /// Pauses a topic.
    pub async fn pause_topic(&self, pause: &PauseRequest) -> Result<PauseResponse, ClientError> {
        self.call(Call::post(path::PAUSE_TOPIC, RetryPolicy::Always, json(pause)?)).await
    }

    /// Resumes a topic.
    pub async fn resume_topic(&self, resume: &PauseRequest) -> Result<PauseResponse, ClientError> {
        self.call(Call::post(path::RESUME_TOPIC, RetryPolicy::Always, json(resume)?)).await
    }

    /// Lists the revocations of tokens.
    pub async fn revocations(&self) -> Result<ListRevocationsResponse, ClientError> {
        self.call(Call::get(path::REVOCATIONS.to_owned())).await
    }

    /// Revokes a token, or all tokens of a key.
    pub async fn revoke(&self, revoke: &RevokeRequest) -> Result<RevocationDetails, ClientError> {
        self.call(Call::post(path::REVOCATIONS, RetryPolicy::Always, json(revoke)?)).await
    }

    /// Statistics of the server and its store.
    pub async fn stats(&self) -> Result<StatsResponse, ClientError> {
        self.call(Call::get(path::STATS.to_owned())).await
    }
}

/// A retry of a redrive or purge would change further matching messages, and its counts would be wrong.
fn retry_policy(dry_run: bool) -> RetryPolicy {
    if dry_run { RetryPolicy::Always } else { RetryPolicy::IfUnsent }
}
