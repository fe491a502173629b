//! Pausing and resuming topics.

use oncebox::Operator;
use oncebox::message::Namespace;
use oncebox::operator::{Pause, PausedTopic};
use oncebox_wire::operator::{
    ListPausedRequest, ListPausedResponse, PauseName, PauseRequest, PauseResponse, PausedTopicDetails,
    QueueName,
};

use super::api_error::ApiError;
use super::call::Call;
use super::openapi::{BodyErrors, ReadErrors};
use super::response::Response;
use super::{body, operator, query};

const TAG: &str = "operator";

/// Lists paused topics.
#[utoipa::path(
    get,
    path = "/v1/admin/topics/paused",
    operation_id = "list_paused_topics",
    tag = TAG,
    params(ListPausedRequest),
    responses((status = 200, description = "The paused topics.", body = ListPausedResponse), ReadErrors),
)]
pub(super) async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let ListPausedRequest { namespace } = query::parse(&call.uri)?;
    call.check_in(queue(namespace), None)?;
    let paused = call.app.operator(queue(namespace), "").paused().await?;
    body::json(&ListPausedResponse { topics: paused.iter().map(details).collect() })
}

/// Pauses a topic, in addition to what is already paused in it.
///
/// A pause survives restarts. All servers that share the store apply it within a second. Senders to a topic that is
/// paused for sending get 429 with the bound `paused`; receivers of a topic that is paused for receiving get no
/// messages.
#[utoipa::path(
    post,
    path = "/v1/admin/topics/pause",
    operation_id = "pause_topic",
    tag = TAG,
    request_body = PauseRequest,
    responses((status = 200, description = "What is paused now.", body = PauseResponse), BodyErrors),
)]
pub(super) async fn pause(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (operator, topic, pause) = read(&mut call).await?;
    let paused = operator.pause(&topic, pause).await?;
    body::json(&PauseResponse { paused: Some(details(&paused)) })
}

/// Resumes a topic.
#[utoipa::path(
    post,
    path = "/v1/admin/topics/resume",
    operation_id = "resume_topic",
    tag = TAG,
    request_body = PauseRequest,
    responses((status = 200, description = "What is still paused.", body = PauseResponse), BodyErrors),
)]
pub(super) async fn resume(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (operator, topic, pause) = read(&mut call).await?;
    let paused = operator.resume(&topic, pause).await?;
    body::json(&PauseResponse { paused: paused.as_ref().map(details) })
}

async fn read(call: &mut Call<'_>) -> Result<(Operator, String, Pause), ApiError> {
    let (request, _permit): (PauseRequest, _) = call.read_json().await?;
    let namespace = queue(request.namespace);
    call.check_in(namespace, Some(&request.topic))?;
    let operator = call.app.operator(namespace, &operator::actor(call)?);
    let operator = operator.because(operator::because(request.because.as_deref())?);
    let pause = match request.pause.unwrap_or(PauseName::Both) {
        PauseName::Sending => Pause::Sending,
        PauseName::Receiving => Pause::Receiving,
        PauseName::Both => Pause::Both,
    };
    Ok((operator, request.topic, pause))
}

fn queue(name: Option<QueueName>) -> Namespace {
    match name.unwrap_or_default() {
        QueueName::Mailbox => Namespace::Mailbox,
        QueueName::Inbox => Namespace::Inbox,
        QueueName::Commands => Namespace::Commands,
    }
}

fn details(paused: &PausedTopic) -> PausedTopicDetails {
    PausedTopicDetails {
        topic: paused.topic.to_string(),
        pause: name(paused.pause),
        since: paused.since.to_string(),
        actor: paused.actor.clone(),
        reason: paused.reason.clone(),
    }
}

pub(super) fn name(pause: Pause) -> PauseName {
    match pause {
        Pause::Sending => PauseName::Sending,
        Pause::Receiving => PauseName::Receiving,
        Pause::Both => PauseName::Both,
    }
}
