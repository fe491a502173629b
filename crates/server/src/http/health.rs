//! Health, statistics and metrics.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use oncebox::{Error, ErrorKind, Health, health::HealthLevel, message::Namespace};
use oncebox_wire::operator::{NamespaceCounts, StatsResponse};
use oncebox_wire::{LiveResponse, ReadyFinding, ReadyResponse};
use serde::Deserialize;
use tokio::time::Instant;

use super::api_error::ApiError;
use super::app::App;
use super::call::Call;
use super::openapi::{HeadErrors, ReadErrors};
use super::response::{self, Response};
use super::{body, query, view};
use crate::saturation::ReachedBound;
use crate::scrape;

const TAG: &str = "health";
/// `Retry-After` of an unready server, in seconds.
const RETRY_SECONDS: u64 = 5;

/// Liveness of the process.
#[utoipa::path(get, path = "/healthz", tag = TAG, responses((status = 200, description = "The process is alive.", body = LiveResponse), HeadErrors))]
pub(super) fn healthz(_: &Call<'_>) -> Result<Response, ApiError> {
    body::json(&LiveResponse { status: "live".to_owned() })
}

/// Liveness of the process.
#[utoipa::path(get, path = "/health/live", tag = TAG, responses((status = 200, description = "The process is alive.", body = LiveResponse), HeadErrors))]
pub(super) fn health_live(_: &Call<'_>) -> Result<Response, ApiError> {
    body::json(&LiveResponse { status: "live".to_owned() })
}

/// The query of `/readyz`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ReadyQuery {
    #[serde(default)]
    r#for: Option<Purpose>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Purpose {
    Reads,
    Writes,
}

/// Readiness of the server, and what is missing.
///
/// Writes fail before reads: `?for=reads` checks reads only.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = TAG,
    params(("for" = inline(Option<Purpose>), Query, description = "`reads` or `writes`; both if omitted.")),
    responses(
        (status = 200, description = "The server is ready.", body = ReadyResponse),
        (status = 503, description = "The server is not ready; `missing` lists why.", body = ReadyResponse),
        HeadErrors,
    ),
)]
pub(super) async fn readyz(call: Call<'_>) -> Result<Response, ApiError> {
    let query: ReadyQuery = query::parse(&call.uri)?;
    ready(call.app, query.r#for).await
}

/// Readiness of the server, and what is missing.
#[utoipa::path(
    get,
    path = "/health/ready",
    tag = TAG,
    responses(
        (status = 200, description = "The server is ready.", body = ReadyResponse),
        (status = 503, description = "The server is not ready; `missing` lists why.", body = ReadyResponse),
        HeadErrors,
    ),
)]
pub(super) async fn health_ready(call: Call<'_>) -> Result<Response, ApiError> {
    ready(call.app, None).await
}

async fn ready(app: &App, purpose: Option<Purpose>) -> Result<Response, ApiError> {
    let ready = readiness(app).await;
    let is_ready = match purpose {
        None => ready.reads && ready.writes,
        Some(Purpose::Reads) => ready.reads,
        Some(Purpose::Writes) => ready.writes,
    };
    if is_ready {
        return body::json(&ready);
    }
    let mut response = body::json_with_status(StatusCode::SERVICE_UNAVAILABLE, &ready)?;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    Ok(response)
}

/// Determines whether reads and writes work, and what is missing.
pub(super) async fn readiness(app: &App) -> ReadyResponse {
    let health = app.oncebox.health().await;
    let usage = app.oncebox.usage().await;
    let mut missing = Vec::new();
    if usage.is_err() {
        missing.push("store");
    }
    if health
        .findings
        .iter()
        .any(|finding| finding.level == HealthLevel::Unhealthy && finding.subject == "maintenance")
    {
        missing.push("scanner_ok");
    }
    if app.stopping.is_cancelled() {
        missing.push("running");
    }
    let age_max = app.active().config.auth.cap_cache_ttl;
    if app.access.as_ref().is_some_and(|access| access.revocations.current(age_max).is_err()) {
        missing.push("revocations");
    }
    let reads = !missing.contains(&"store") && !missing.contains(&"revocations");
    let paused = if reads { paused(app).await } else { Vec::new() };
    let reached = app.saturation.current(Instant::now());
    let full = usage.is_ok_and(|usage| {
        usage.problem.is_some() || usage.bounds.iter().any(|bound| bound.used >= bound.limit)
    });
    if full || reached.iter().any(ReachedBound::stops_writes) {
        missing.push("capacity");
    }
    let writes = missing.is_empty();
    let status = match (reads, writes) {
        (true, true) => "ready",
        (true, false) => "degraded",
        (false, _) => "unavailable",
    };
    ReadyResponse {
        status: status.to_owned(),
        degraded: !writes,
        reads,
        writes,
        missing: missing.into_iter().map(str::to_owned).collect(),
        retry_after: (!writes).then_some(RETRY_SECONDS),
        findings: findings(health, &reached, paused, app),
    }
}

/// Findings for operators: about the store and its background loops, bounds that cause rejections, dead letter alerts,
/// paused topics, redrive rules and connections.
fn findings(
    health: Health,
    reached: &[ReachedBound],
    paused: Vec<ReadyFinding>,
    app: &App,
) -> Vec<ReadyFinding> {
    let connections =
        [&app.connections, &app.admin_connections].into_iter().filter_map(|known| known.finding());
    let connections = connections.map(|text| ReadyFinding {
        level: "warning".to_owned(),
        subject: "connections".to_owned(),
        text,
    });
    let dead_letters = app.dlq_alerts.current(Instant::now()).into_iter().map(|rising| ReadyFinding {
        level: "warning".to_owned(),
        subject: "dead_letters".to_owned(),
        text: rising.text(),
    });
    let rules = app.rule_findings.texts().into_iter().map(|text| ReadyFinding {
        level: "warning".to_owned(),
        subject: "redrive".to_owned(),
        text,
    });
    let revocations = app.access.as_ref().and_then(|access| {
        let text = access.revocations.finding(app.active().config.auth.cap_cache_ttl)?;
        Some(ReadyFinding { level: "warning".to_owned(), subject: "revocations".to_owned(), text })
    });
    // A rejection says more than how full the same bound is.
    let rejected = |finding: &oncebox::health::HealthFinding| {
        reached.iter().any(|reached| reached.bound.name == finding.subject)
    };
    let health = health.findings.into_iter().filter(|finding| !rejected(finding));
    let reached = reached.iter().map(|reached| {
        let bound = reached.bound;
        let (problem, remedy) = (bound.problem(), bound.remedy());
        let text = format!("requests are rejected: {problem} ({} of {}); {remedy}", bound.used, bound.limit);
        let level = view::level(reached.level());
        ReadyFinding { level: level.to_owned(), subject: bound.name.to_owned(), text }
    });
    reached
        .chain(health.map(view::finding))
        .chain(dead_letters)
        .chain(paused)
        .chain(rules)
        .chain(connections)
        .chain(revocations)
        .collect()
}

/// Findings about paused topics, one for each namespace.
async fn paused(app: &App) -> Vec<ReadyFinding> {
    let mut findings = Vec::new();
    for namespace in [Namespace::Mailbox, Namespace::Inbox, Namespace::Commands] {
        let paused = match app.operator(namespace, "").paused().await {
            Ok(paused) => paused,
            Err(error) => {
                let text = format!("cannot read which topics are paused: {error}");
                findings.push(ReadyFinding { level: "error".to_owned(), subject: "paused".to_owned(), text });
                break;
            }
        };
        let Some(first) = paused.first() else { continue };
        let (topic, pause, others) = (first.topic.as_str(), first.pause.as_str(), paused.len() - 1);
        let others = if others > 0 { format!(", and {others} more topics") } else { String::new() };
        let text = format!(
            "topic {topic} of namespace {namespace} is paused ({pause}) since {}{others}: list them with `oncebox pause --namespace {namespace}`, and use `oncebox resume` to continue",
            first.since
        );
        findings.push(ReadyFinding { level: "warning".to_owned(), subject: "paused".to_owned(), text });
    }
    findings
}

/// Statistics of the server and its store.
#[utoipa::path(
    get,
    path = "/v1/admin/stats",
    tag = TAG,
    responses((status = 200, description = "The statistics.", body = StatsResponse), ReadErrors),
)]
pub(super) async fn stats(call: Call<'_>) -> Result<Response, ApiError> {
    let Call { app, active, .. } = call;
    let mut unknown = Vec::new();
    let namespaces = or_unknown("namespaces", namespaces(app).await, &mut unknown)?;
    let mut bounds = or_unknown("bounds", app.oncebox.usage().await, &mut unknown)?.bounds;
    let reached = app.saturation.current(Instant::now());
    for ReachedBound { bound, .. } in &reached {
        match bounds.iter_mut().find(|known| known.name == bound.name) {
            Some(known) => *known = *bound,
            None => bounds.push(*bound),
        }
    }
    let paused = if unknown.is_empty() { paused(app).await } else { Vec::new() };
    body::json(&StatsResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: oncebox_system::uptime().as_secs(),
        store: app.oncebox.name().to_owned(),
        profile: active.config.profile.as_str().to_owned(),
        amnesia: active.config.amnesia,
        dlq_profile: scrape::dlq_profile(&app.oncebox).to_owned(),
        auth: if app.access.is_some() { "tokens" } else { "none" }.to_owned(),
        namespaces,
        bounds: bounds.into_iter().map(view::bound).collect(),
        unknown,
        findings: findings(app.oncebox.health().await, &reached, paused, app),
    })
}

async fn namespaces(app: &App) -> Result<Vec<NamespaceCounts>, Error> {
    let mut namespaces = Vec::new();
    for namespace in Namespace::ALL {
        let counts = app.operator(namespace, "").counts(None).await?;
        namespaces.push(NamespaceCounts {
            namespace: view::namespace_to_wire(namespace),
            counts: view::counts(counts),
        });
    }
    Ok(namespaces)
}

/// Returns what was read; if the store is unavailable, adds the name to `unknown` and returns the default.
fn or_unknown<T: Default>(name: &str, read: Result<T, Error>, unknown: &mut Vec<String>) -> Result<T, Error> {
    match read {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            unknown.push(name.to_owned());
            Ok(T::default())
        }
        read => read,
    }
}

/// Metrics in the Prometheus text format.
///
/// While the store does not answer, `oncebox_store_up` is 0, and all values that come from the store are `NaN`.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = TAG,
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"), ReadErrors),
)]
pub(super) async fn metrics(call: Call<'_>) -> Result<Response, ApiError> {
    let metrics = call.app.scrape().render().await?;
    Ok(response::whole(metrics, "text/plain; version=0.0.4; charset=utf-8"))
}
