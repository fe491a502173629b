//! How topics stand: a list for operators.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use oncebox::{PageSize, Topic, TopicCounts, TopicQuery, TopicRange};
use oncebox_wire as wire;
use oncebox_wire::operator::{ListTopics, TopicPage};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::openapi::ReadRefusals;
use super::refusal::Refusal;
use super::{body, operator, view};

/// Topics on a page, if it does not say.
const PAGE_DEFAULT: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Lists topics with messages that are not handled, and how they stand: by name, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/admin/topics",
    operation_id = "list_topics",
    tag = "operator",
    params(ListTopics),
    responses((status = 200, description = "A page of topics.", body = TopicPage), ReadRefusals),
)]
async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let ListTopics { namespace, topic, limit, after } = operator::query(&uri)?;
    let reader = app.operator(view::namespace(namespace), "");
    let (size, most) = (limit.unwrap_or(PAGE_DEFAULT), PageSize::MAX.get());
    let size = PageSize::new(size).map_err(|_| Refusal::schema(format!("limit must be from 1 to {most}")))?;
    let after = after.map(Topic::new).transpose();
    let after = after.map_err(|_| Refusal::schema("after is not the `next` of a page of topics"))?;
    if let Some(topic) = topic {
        let found = reader.topic(&topic).await?;
        let topics = found.iter().map(|counts| describe(&app, counts)).collect();
        return body::answer(&TopicPage { topics, next: None });
    }
    let range = after.map_or(TopicRange::All, TopicRange::From);
    let query = TopicQuery { range, limit: size, ..TopicQuery::first(view::namespace(namespace)) };
    let page = reader.topics(&query).await?;
    let topics = page.topics.iter().map(|counts| describe(&app, counts)).collect();
    body::answer(&TopicPage { topics, next: page.next.map(|next| next.to_string()) })
}

fn describe(app: &App, counts: &TopicCounts) -> wire::operator::Topic {
    let last_minute = app.meters.last_minute(counts.topic.as_str());
    let age = counts.oldest_ready.map(|accepted| app.now().since(accepted).as_millis());
    wire::operator::Topic {
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
        estimated: counts.estimated,
    }
}
