//! The operator's door: list, show, count, redrive, purge.

use std::error::Error as _;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use oncebox::mailbox::MsgId;
use oncebox::{
    Cursor, Direction, Id, Key, MessageState, Namespace, Operated, Operator, PageSize, Query, Ref, Source,
    Topic, Uid,
};
use oncebox_wire as wire;
use oncebox_wire::operator::{ByKey, Count, List, Message, Page, Show, Sort, Sweep, Swept};
use oncebox_wire::{Code, header};
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::fault::{self, Whole};
use super::openapi::{NotFound, ReadRefusals, Refusals};
use super::refusal::Refusal;
use super::{body, segment, view};

/// What is wrong with the query of an address.
type QueryFault = serde_path_to_error::Error<serde::de::value::Error>;

const TAG: &str = "operator";
/// Messages on a page, if it does not say.
const PAGE_DEFAULT: u32 = 100;
/// Earlier messages under one key that are named, at most.
const OLDER_MAX: u32 = 100;
/// Messages that a sweep names, at most.
const IDS_MAX: usize = 1_000;
/// Longest name of an actor and longest reason, for the audit log.
const TEXT_BYTES_MAX: usize = 1_024;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(show_by_key))
        .routes(routes!(redrive))
        .routes(routes!(purge))
        .routes(routes!(count))
}

/// Lists messages, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/messages",
    operation_id = "list_messages",
    tag = TAG,
    params(List),
    responses((status = 200, description = "A page of messages.", body = Page), ReadRefusals),
)]
async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    page(&app, query(&uri)?).await
}

pub(super) async fn page(app: &App, list: List) -> Result<Response, Refusal> {
    let namespace = view::namespace(list.namespace);
    let mut query = Query::all(namespace);
    query.state = list.state.map(view::state);
    query.dead = list.reason.map(view::reason);
    query.topic = list.topic.map(Topic::new).transpose()?;
    query.source = list.source.map(Source::new).transpose()?;
    query.direction = match list.sort.unwrap_or_default() {
        Sort::Oldest => Direction::OldestFirst,
        Sort::Newest => Direction::NewestFirst,
    };
    let most = PageSize::MAX.get();
    let size = list.limit.unwrap_or(PAGE_DEFAULT);
    let size = PageSize::new(size).map_err(|_| Refusal::schema(format!("limit must be from 1 to {most}")))?;
    query.size = size;
    let after = list.after.as_deref().map(str::parse::<Cursor>).transpose();
    query.after = after.map_err(|_| Refusal::schema("after is not one of ours: take it from `next`"))?;
    let page = app.operator(namespace, "").page(&query).await?;
    let next = page.next.map(|next| next.to_string());
    body::answer(&Page { messages: page.messages.iter().map(view::view).collect(), next })
}

/// Shows everything that is known about a message.
#[utoipa::path(
    get,
    path = "/v1/messages/{msg_id}",
    operation_id = "show_message",
    tag = TAG,
    params(("msg_id" = String, Path, description = "A ULID or a UUID.", pattern = "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$"), Show),
    responses((status = 200, description = "The message.", body = Message), NotFound, ReadRefusals),
)]
async fn show(State(app): State<App>, Path(msg_id): Path<String>, uri: Uri) -> Result<Response, Refusal> {
    let show: Show = query(&uri)?;
    answer_one(&app, Ref::Uid(uid(&msg_id)?), show, None).await
}

/// Finds a message by its key, also when the key is not held any more: the newest that came under it. `keyed` says whether it holds the
/// key, `older` names the others.
#[utoipa::path(
    get,
    path = "/v1/messages/by-key",
    operation_id = "find_message",
    tag = TAG,
    params(ByKey),
    responses((status = 200, description = "The message.", body = Message), NotFound, ReadRefusals),
)]
async fn show_by_key(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let by: ByKey = query(&uri)?;
    let namespace = view::namespace(by.namespace);
    let source = match (by.source, namespace) {
        (Some(source), _) => source,
        (None, Namespace::Ledger) => "ledger".to_owned(),
        (None, _) => return Err(Refusal::schema("source is missing: in the mailbox, it is the topic")),
    };
    let key = Key::new(namespace, Source::new(source)?, Id::new(by.id)?);
    let limit = PageSize::new(OLDER_MAX + 1).map_err(oncebox::Error::from)?;
    let found = app.operator(namespace, "").with_key(&key, limit).await?;
    let Some((newest, older)) = found.split_first() else { return Err(nothing_found()) };
    let mut message = view::view(newest);
    if by.payload.unwrap_or(false) {
        // It may be gone since.
        let whole = app.operator(namespace, "").show(newest.uid).await?.ok_or_else(nothing_found)?;
        message = view::whole(whole, true);
    }
    message.older = older.iter().map(|older| MsgId::from(older.uid).to_string()).collect();
    body::answer(&message)
}

fn nothing_found() -> Refusal {
    Refusal::new(Code::NotFound, "there is no such message: it was never here, or is forgotten")
}

/// Answers with a message; if a state is given, only one that is in it, and of the mailbox.
pub(super) async fn answer_one(
    app: &App,
    target: Ref,
    show: Show,
    dead_letter: Option<MessageState>,
) -> Result<Response, Refusal> {
    let found = app.operator(Namespace::Mailbox, "").show(target).await?;
    let found = found.filter(|found| {
        dead_letter.is_none_or(|state| found.state == state && found.key.namespace == Namespace::Mailbox)
    });
    let found = found.ok_or_else(nothing_found)?;
    body::answer(&view::whole(found, show.payload.unwrap_or(false)))
}

/// Gives Dead messages another chance: those named, or those that match.
#[utoipa::path(
    post,
    path = "/v1/messages/redrive",
    operation_id = "redrive_messages",
    tag = TAG,
    request_body = wire::schema::RedriveMessagesBody,
    responses((status = 200, description = "What it did.", body = Swept), NotFound, Refusals),
)]
async fn redrive(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (operator, sweep) = sweep_of(&app, request).await?;
    if sweep.state.is_some_and(|state| view::state(state) != MessageState::Dead) {
        return Err(Refusal::schema("only Dead messages are redriven: leave state out"));
    }
    body::answer(&super::redrive::by(&app, &operator, &sweep).await?)
}

/// Erases messages: nothing remains of them, not even that they were there.
#[utoipa::path(
    post,
    path = "/v1/messages/purge",
    operation_id = "purge_messages",
    tag = TAG,
    request_body = wire::schema::PurgeBody,
    responses((status = 200, description = "What it did.", body = Swept), Refusals),
)]
async fn purge(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (operator, sweep) = sweep_of(&app, request).await?;
    if !sweep.confirm && !sweep.dry_run {
        return Err(Refusal::schema(
            "a purge cannot be undone: look with `dry_run` first, then say `confirm`",
        ));
    }
    if sweep.ids.is_empty() {
        let filter = super::redrive::filter(&sweep)?;
        let swept =
            if sweep.dry_run { operator.preview(&filter).await } else { operator.purge(&filter).await };
        return body::answer(&super::redrive::of(swept?, &sweep));
    }
    let found = named(&operator, &sweep).await?.into_iter().flatten();
    let targets: Vec<_> = found.map(|(target, _)| target).collect();
    let operated = if sweep.dry_run { Vec::new() } else { operator.erase_all(&targets).await? };
    body::answer(&changed(&targets, &operated, sweep.dry_run))
}

/// Counts messages by where they stand.
#[utoipa::path(
    get,
    path = "/v1/counts",
    operation_id = "count_messages",
    tag = TAG,
    params(Count),
    responses((status = 200, description = "The counts.", body = wire::operator::Counts), ReadRefusals),
)]
async fn count(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let count: Count = query(&uri)?;
    let counts = app.operator(view::namespace(count.namespace), "").counts(count.topic.as_deref()).await?;
    body::answer(&view::counts(counts))
}

/// What the address asks for.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    let query = axum::extract::Query::<T>::try_from_uri(uri);
    query.map(|query| query.0).map_err(|rejection| {
        let mut causes = std::iter::successors(rejection.source(), |cause| (**cause).source());
        let fault = causes.find_map(|cause| cause.downcast_ref::<QueryFault>());
        let fault = fault.map(|fault| {
            fault::explain(Whole::Called("the address"), fault.path(), &fault.inner().to_string())
        });
        // Anything else that the parser says repeats what it found, which may be a secret.
        let fault = fault.unwrap_or_else(|| "the address asks for something unknown or wrong".to_owned());
        Refusal::schema(format!("{fault}; see /docs for what may stand behind the `?`"))
    })
}

/// A message's id, as a ULID or a UUID.
pub(super) fn uid(text: &str) -> Result<Uid, Refusal> {
    let text = segment::short(text)?;
    let uid = text.parse::<Uid>().or_else(|_| text.parse::<MsgId>().map(MsgId::uid));
    uid.map_err(|_| Refusal::schema("the id is neither a ULID nor a UUID"))
}

async fn sweep_of(app: &App, request: Request) -> Result<(Operator, Sweep), Refusal> {
    let (parts, content) = request.into_parts();
    let (sweep, _room): (Sweep, _) = body::read_json(app, &parts.headers, content, app.live().one()).await?;
    let operator = app.operator(view::namespace(sweep.namespace), actor(&parts.headers)?);
    let because = sweep.because.clone().unwrap_or_default();
    if because.len() > TEXT_BYTES_MAX {
        return Err(Refusal::schema(format!("because is longer than {TEXT_BYTES_MAX} bytes")));
    }
    Ok((operator.because(because), sweep))
}

/// Who operates, as far as is known.
pub(super) fn actor(headers: &HeaderMap) -> Result<&str, Refusal> {
    let Some(actor) = headers.get(header::ACTOR) else { return Ok("local") };
    let actor = actor.to_str().ok().filter(|actor| actor.len() <= TEXT_BYTES_MAX);
    actor.ok_or_else(|| Refusal::schema("X-Actor is too long, or not plain text"))
}

/// The named messages, each with its state; none for those that are not there, or of another namespace.
pub(super) async fn named(
    operator: &Operator,
    sweep: &Sweep,
) -> Result<Vec<Option<(Ref, MessageState)>>, Refusal> {
    // Each is named: a limit that is allowed changes nothing.
    super::redrive::limit(sweep)?;
    if sweep.ids.len() > IDS_MAX {
        return Err(Refusal::schema(format!("there are more than {IDS_MAX} ids: sweep several times")));
    }
    let by_filter = [
        sweep.topic.is_some(),
        sweep.source.is_some(),
        sweep.reason.is_some(),
        sweep.state.is_some(),
        sweep.error.is_some(),
        sweep.since.is_some(),
        sweep.until.is_some(),
        sweep.after.is_some(),
    ];
    if by_filter.contains(&true) {
        return Err(Refusal::schema("messages are named by ids: nothing else can choose"));
    }
    let namespace = view::namespace(sweep.namespace);
    let mut named = Vec::with_capacity(sweep.ids.len());
    for id in &sweep.ids {
        let target = Ref::Uid(uid(id)?);
        let found = operator.show(target.clone()).await?;
        let found = found.filter(|found| found.key.namespace == namespace);
        named.push(found.map(|found| (target, found.state)));
    }
    Ok(named)
}

fn changed(targets: &[Ref], operated: &[Operated], dry_run: bool) -> Swept {
    let changed = operated.iter().filter(|operated| matches!(operated, Operated::Changed(_))).count();
    Swept { matched: targets.len() as u64, changed: changed as u64, dry_run, ..Swept::default() }
}
