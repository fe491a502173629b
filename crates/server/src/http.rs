//! The HTTP API.

mod api_error;
mod app;
mod authority;
mod body;
mod corr_id;
mod dlq;
mod docs_page;
mod fast_path;
mod head;
mod health;
mod json;
mod ledger;
mod mailbox;
mod openapi;
mod operator;
mod parse_error;
mod pauses;
mod percent;
mod query;
mod redrive;
mod segment;
mod service;
mod sweep;
mod topics;
mod unparsed;
mod view;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use oncebox_wire::{ErrorBody, ErrorCode, Problem, path};
use tokio::time::Instant;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use api_error::ApiError;
pub(crate) use app::App;
use openapi::Documents;
use service::HttpService;

/// The parts of the OpenAPI document that are not derived from routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Oncebox",
        description = "A durable, idempotent inbox: mailbox, ledger and operator API over HTTP."
    ),
    servers((url = "http://127.0.0.1:7420", description = "A server with the default settings.")),
    components(schemas(
        ErrorBody,
        Problem,
        ErrorCode,
        oncebox_wire::mailbox::MessageEnvelope,
        oncebox_wire::mailbox::SettleItem,
        oncebox_wire::mailbox::SettleOp,
        oncebox_wire::schema::InvalidItem,
    ))
)]
struct Document;

/// Returns the OpenAPI document of all endpoints.
pub fn document() -> utoipa::openapi::OpenApi {
    routes().1
}

fn routes() -> (Router<App>, utoipa::openapi::OpenApi) {
    described(mailbox::routes().merge(ledger::routes()).merge(admin_routes()))
}

fn admin_routes() -> OpenApiRouter<App> {
    dlq::routes()
        .merge(operator::routes())
        .merge(topics::routes())
        .merge(pauses::routes())
        .merge(health::routes())
}

fn described(routes: OpenApiRouter<App>) -> (Router<App>, utoipa::openapi::OpenApi) {
    let mut document = Document::openapi();
    openapi::describe(&mut document);
    OpenApiRouter::with_openapi(document).merge(routes).split_for_parts()
}

/// The service of `listen`: all endpoints.
pub(crate) fn service(app: App) -> HttpService {
    let (known, document) = routes();
    let router = complete(&app, known, document, "no such path; see /docs");
    HttpService::new(app, router)
}

/// The service of `admin.listen`: operator, health and metrics endpoints.
pub(crate) fn admin_service(app: App) -> HttpService {
    let (known, document) = described(admin_routes());
    let missing = "no such path on this address, which serves operator, health and metrics requests only; see `listen` for the rest";
    let router = complete(&app, known, document, missing);
    HttpService::limited(app, router)
}

/// Adds metrics, the OpenAPI document and error responses for unknown paths and methods.
fn complete(
    app: &App,
    known: Router<App>,
    document: utoipa::openapi::OpenApi,
    missing: &'static str,
) -> Router {
    let documents = Router::new()
        .route(path::OPENAPI, get(openapi::json))
        .route(path::DOCS, get(openapi::docs))
        .with_state(Documents::new(document));
    known
        .route_layer(from_fn_with_state(app.clone(), measure))
        .with_state(app.clone())
        .merge(documents)
        .fallback(async move || ApiError::new(ErrorCode::NotFound, missing))
        .method_not_allowed_fallback(async || {
            ApiError::new(ErrorCode::Method, "method not allowed for this path; see /docs")
        })
}

/// Records the status and the latency of a route.
async fn measure(State(app): State<App>, route: MatchedPath, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "HEAD" => "HEAD",
        _ => "other",
    };
    let response = next.run(request).await;
    app.metrics.route(route.as_str()).record(method, response.status().as_u16(), began.elapsed());
    response
}
