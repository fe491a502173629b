//! Health, stats and metrics.

use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use oncebox::{Error, Health, Kind, Level, Namespace};
use oncebox_wire::operator::{NamespaceCounts, Stats};
use oncebox_wire::{Finding, Live, Ready};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::openapi::{HeadRefusals, ReadRefusals};
use super::refusal::Refusal;
use super::{body, operator, view};
use crate::saturation::Reached;
use crate::scrape;

const TAG: &str = "health";
/// When to ask again whether the server is ready, in seconds.
const RETRY_SECONDS: u64 = 5;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(health_live))
        .routes(routes!(health_ready))
        .routes(routes!(stats))
        .routes(routes!(metrics))
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = TAG, responses((status = 200, description = "It does.", body = Live), HeadRefusals))]
async fn healthz() -> Result<Response, Refusal> {
    body::answer(&Live { status: "live".to_owned() })
}

/// Whether the process lives.
#[utoipa::path(get, path = "/health/live", tag = TAG, responses((status = 200, description = "It does.", body = Live), HeadRefusals))]
async fn health_live() -> Result<Response, Refusal> {
    body::answer(&Live { status: "live".to_owned() })
}

/// What the asker wants to do.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct For {
    #[serde(default)]
    r#for: Option<Purpose>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Purpose {
    Reads,
    Writes,
}

/// Whether the server can work, and what is missing. Writes are given up before reads: `?for=reads` asks for those alone.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = TAG,
    params(("for" = inline(Option<Purpose>), Query, description = "`reads` or `writes`; both if not given.")),
    responses(
        (status = 200, description = "It can.", body = Ready),
        (status = 503, description = "It cannot; the body lists what is missing.", body = Ready),
        HeadRefusals,
    ),
)]
async fn readyz(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let asked: For = operator::query(&uri)?;
    ready(&app, asked.r#for).await
}

/// Whether the server can work, and what is missing.
#[utoipa::path(
    get,
    path = "/health/ready",
    tag = TAG,
    responses(
        (status = 200, description = "It can.", body = Ready),
        (status = 503, description = "It cannot; the body lists what is missing.", body = Ready),
        HeadRefusals,
    ),
)]
async fn health_ready(State(app): State<App>) -> Result<Response, Refusal> {
    ready(&app, None).await
}

async fn ready(app: &App, purpose: Option<Purpose>) -> Result<Response, Refusal> {
    let ready = readiness(app).await;
    let fine = match purpose {
        None => ready.reads && ready.writes,
        Some(Purpose::Reads) => ready.reads,
        Some(Purpose::Writes) => ready.writes,
    };
    if fine {
        return body::answer(&ready);
    }
    let mut response = body::answer_as(StatusCode::SERVICE_UNAVAILABLE, &ready)?;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    Ok(response)
}

/// What can be done, and what is missing.
pub(super) async fn readiness(app: &App) -> Ready {
    let health = app.oncebox.health().await;
    let usage = app.oncebox.usage().await;
    let mut missing = Vec::new();
    if usage.is_err() {
        missing.push("store");
    }
    if health.findings.iter().any(|finding| finding.level == Level::Unhealthy && finding.subject == "upkeep")
    {
        missing.push("scanner_ok");
    }
    if app.stopping.is_cancelled() {
        missing.push("running");
    }
    let reads = !missing.contains(&"store");
    let reached = app.saturation.current(Instant::now());
    let full = usage.is_ok_and(|usage| {
        usage.trouble.is_some() || usage.bounds.iter().any(|bound| bound.used >= bound.limit)
    });
    if full || reached.iter().any(Reached::stops_writes) {
        missing.push("capacity");
    }
    let writes = missing.is_empty();
    let status = match (reads, writes) {
        (true, true) => "ready",
        (true, false) => "degraded",
        (false, _) => "unavailable",
    };
    Ready {
        status: status.to_owned(),
        degraded: !writes,
        reads,
        writes,
        missing: missing.into_iter().map(str::to_owned).collect(),
        retry_after: (!writes).then_some(RETRY_SECONDS),
        findings: findings(app, health, &reached),
    }
}

/// What an operator should know: about the store and the loops, about bounds that requests are refused for, about dead
/// letters that rise, about rules that keep failing, and about connections.
fn findings(app: &App, health: Health, reached: &[Reached]) -> Vec<Finding> {
    let connections =
        [&app.connections, &app.admin_connections].into_iter().filter_map(|known| known.finding());
    let connections = connections.map(|text| Finding {
        level: "warning".to_owned(),
        subject: "connections".to_owned(),
        text,
    });
    let letters = app.dead_letters.current(Instant::now()).into_iter().map(|rising| Finding {
        level: "warning".to_owned(),
        subject: "dead_letters".to_owned(),
        text: rising.text(),
    });
    let rules = app.rule_findings.texts().into_iter().map(|text| Finding {
        level: "warning".to_owned(),
        subject: "redrive".to_owned(),
        text,
    });
    // What is refused says more than how full the same bound is.
    let refused =
        |finding: &oncebox::Finding| reached.iter().any(|reached| reached.bound.name == finding.subject);
    let health = health.findings.into_iter().filter(|finding| !refused(finding));
    let reached = reached.iter().map(|reached| {
        let bound = reached.bound;
        let (problem, remedy) = (bound.problem(), bound.remedy());
        let text = format!("requests are refused: {problem} ({} of {}); {remedy}", bound.used, bound.limit);
        let level = view::level(reached.level());
        Finding { level: level.to_owned(), subject: bound.name.to_owned(), text }
    });
    reached.chain(health.map(view::finding)).chain(letters).chain(rules).chain(connections).collect()
}

/// How the server and its store stand.
#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = TAG,
    responses((status = 200, description = "How it stands.", body = Stats), ReadRefusals),
)]
async fn stats(State(app): State<App>) -> Result<Response, Refusal> {
    let mut unknown = Vec::new();
    let namespaces = known("namespaces", namespaces(&app).await, &mut unknown)?;
    let mut bounds = known("bounds", app.oncebox.usage().await, &mut unknown)?.bounds;
    let reached = app.saturation.current(Instant::now());
    for Reached { bound, .. } in &reached {
        match bounds.iter_mut().find(|known| known.name == bound.name) {
            Some(known) => *known = *bound,
            None => bounds.push(*bound),
        }
    }
    body::answer(&Stats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: oncebox_system::uptime().as_secs(),
        store: app.oncebox.name().to_owned(),
        profile: app.live().config.profile.as_str().to_owned(),
        amnesia: app.live().config.amnesia,
        dlq_profile: scrape::dlq_profile(&app).to_owned(),
        auth: "none".to_owned(),
        namespaces,
        bounds: bounds.into_iter().map(view::bound).collect(),
        unknown,
        findings: findings(&app, app.oncebox.health().await, &reached),
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

/// What was read, or nothing and its name among the unknown where the store does not answer.
fn known<T: Default>(name: &str, read: Result<T, Error>, unknown: &mut Vec<String>) -> Result<T, Error> {
    match read {
        Err(error) if error.kind() == Kind::Unavailable => {
            unknown.push(name.to_owned());
            Ok(T::default())
        }
        read => read,
    }
}

/// Metrics, as Prometheus reads them.
///
/// While the store does not answer, `oncebox_store_up` is 0, and what the store would have to say is `NaN`.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = TAG,
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"), ReadRefusals),
)]
async fn metrics(State(app): State<App>) -> Result<Response, Refusal> {
    let mut response = Response::new(scrape::render(&app).await?.into());
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    Ok(response)
}
