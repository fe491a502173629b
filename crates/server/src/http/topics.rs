//! Topics and their message counts, for operators.

use oncebox::{
    message::Topic,
    operator::{PageSize, PausedTopic, TopicCounts, TopicQuery, TopicRange},
};
use oncebox_wire as wire;
use oncebox_wire::operator::{ListTopicsRequest, ListTopicsResponse};

use super::api_error::ApiError;
use super::app::App;
use super::call::Call;
use super::openapi::ReadErrors;
use super::response::Response;
use super::{body, pauses, query, view};

/// Default page size.
const PAGE_DEFAULT: u32 = 100;

/// Lists topics with messages that are not Done and their counts, by name, one page at a time.
#[utoipa::path(
    get,
    path = "/v1/admin/topics",
    operation_id = "list_topics",
    tag = "operator",
    params(ListTopicsRequest),
    responses((status = 200, description = "A page of topics.", body = ListTopicsResponse), ReadErrors),
)]
pub(super) async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let ListTopicsRequest { namespace, topic, limit, after } = query::parse(&call.uri)?;
    call.check_in(view::namespace(namespace), topic.as_deref())?;
    let reader = call.app.operator(view::namespace(namespace), "");
    let paused = reader.paused().await?;
    let (size, max) = (limit.unwrap_or(PAGE_DEFAULT), PageSize::MAX.get());
    let size = PageSize::new(size).map_err(|_| ApiError::schema(format!("limit must be from 1 to {max}")))?;
    let after = after.map(Topic::new).transpose();
    let after =
        after.map_err(|_| ApiError::schema("after is not valid: use the `next` of the previous page"))?;
    if let Some(topic) = topic {
        let found = reader.topic(&topic).await?;
        let topics = found.iter().map(|counts| describe(call.app, counts, &paused)).collect();
        return body::json(&ListTopicsResponse { topics, next: None });
    }
    let range = after.map_or(TopicRange::All, TopicRange::From);
    let query = TopicQuery { range, limit: size, ..TopicQuery::first(view::namespace(namespace)) };
    let page = reader.topics(&query).await?;
    let topics = page.topics.iter().map(|counts| describe(call.app, counts, &paused)).collect();
    body::json(&ListTopicsResponse { topics, next: page.next.map(|next| next.to_string()) })
}

fn describe(app: &App, counts: &TopicCounts, paused: &[PausedTopic]) -> wire::operator::TopicDetails {
    let paused = paused.binary_search_by(|paused| paused.topic.cmp(&counts.topic)).ok().map(|at| &paused[at]);
    let last_minute = app.metrics.last_minute(counts.topic.as_str());
    let age = counts.oldest_ready.map(|accepted| app.now().since(accepted).as_millis());
    wire::operator::TopicDetails {
        topic: counts.topic.to_string(),
        ready: counts.ready,
        waiting: counts.waiting,
        in_flight: counts.leased,
        workers: counts.workers.iter().map(ToString::to_string).collect(),
        dead: counts.dead,
        oldest_at: counts.oldest_ready.map(|accepted| accepted.to_string()),
        oldest_age_ms: age.map(|age| u64::try_from(age).unwrap_or(u64::MAX)),
        accepted_last_minute: last_minute.map(|last| last.accepted),
        delivered_last_minute: last_minute.map(|last| last.delivered),
        paused: paused.map(|paused| pauses::name(paused.pause)),
        estimated: counts.estimated,
    }
}
