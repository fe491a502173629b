//! The doors over HTTP.

mod app;
mod authority;
mod body;
mod dlq;
mod express;
mod fault;
mod gate;
mod head;
mod health;
mod json;
mod ledger;
mod mailbox;
mod openapi;
mod operator;
mod page;
mod percent;
mod redrive;
mod refusal;
mod segment;
mod topics;
mod unparsed;
mod view;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use oncebox_wire::{Code, ErrorBody, Problem, path};
use tokio::time::Instant;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

pub(crate) use app::App;
pub(crate) use body::Limit;
pub(crate) use gate::{Caller, Door, Gate};
use openapi::Documents;
use refusal::Refusal;

/// What the document says beside the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Oncebox",
        description = "A durable, idempotent inbox: mailbox, ledger and operator's door over HTTP."
    ),
    servers((url = "http://127.0.0.1:7420", description = "A server with the default settings.")),
    components(schemas(
        ErrorBody,
        Problem,
        Code,
        oncebox_wire::mailbox::Envelope,
        oncebox_wire::mailbox::SettleItem,
        oncebox_wire::mailbox::Op,
        oncebox_wire::schema::Malformed,
    ))
)]
struct Document;

/// The description of all doors.
pub fn document() -> utoipa::openapi::OpenApi {
    routes().1
}

fn routes() -> (Router<App>, utoipa::openapi::OpenApi) {
    described(mailbox::routes().merge(ledger::routes()).merge(admin_routes()))
}

fn admin_routes() -> OpenApiRouter<App> {
    dlq::routes().merge(operator::routes()).merge(topics::routes()).merge(health::routes())
}

fn described(routes: OpenApiRouter<App>) -> (Router<App>, utoipa::openapi::OpenApi) {
    let mut document = Document::openapi();
    openapi::describe(&mut document);
    OpenApiRouter::with_openapi(document).merge(routes).split_for_parts()
}

/// Everything that `listen` answers.
pub(crate) fn gate(app: App) -> Gate {
    let (known, document) = routes();
    let router = complete(&app, known, document, "there is no such path: see /docs");
    Gate::new(app, router)
}

/// What `admin.listen` answers: operators, health and metrics.
pub(crate) fn admin_gate(app: App) -> Gate {
    let (known, document) = described(admin_routes());
    let missing =
        "there is no such path here: this address answers operators, health and metrics, `listen` the rest";
    let router = complete(&app, known, document, missing);
    Gate::limited(app, router)
}

/// Routes with their metrics, the document, and answers for what they do not know.
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
        .fallback(async move || Refusal::new(Code::NotFound, missing))
        .method_not_allowed_fallback(async || {
            Refusal::new(Code::Method, "the path knows other methods: see /docs")
        })
}

/// Counts and times what a route answers.
async fn measure(State(app): State<App>, route: MatchedPath, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "HEAD" => "HEAD",
        _ => "other",
    };
    let response = next.run(request).await;
    app.meters.route(route.as_str()).answered(method, response.status().as_u16(), began.elapsed());
    response
}
