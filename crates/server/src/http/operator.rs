//! The operator API: list, show, count, redrive, purge.

use oncebox::mailbox::MsgId;
use oncebox::{
    MessageState, Operator,
    message::{Id, Key, Namespace, Source, Topic},
    operator::{Cursor, Direction, MessageQuery, MessageRef, Operated, PageSize},
};
use oncebox_wire as wire;
use oncebox_wire::operator::{
    ByKeyRequest, CountRequest, ListRequest, ListResponse, MessageDetails, ShowRequest, SortOrder,
    SweepRequest, SweepResponse,
};
use oncebox_wire::{ErrorCode, header};

use super::api_error::ApiError;
use super::call::Call;
use super::openapi::{BodyErrors, NotFound, ReadErrors};
use super::response::Response;
use super::{body, query, segment, sweep, view};

const TAG: &str = "operator";
/// Default page size.
const PAGE_DEFAULT: u32 = 100;
/// Maximum number of older messages under one key that are listed.
const OLDER_MAX: u32 = 100;
/// Maximum length of an actor and of a reason in the audit log.
const TEXT_BYTES_MAX: usize = 1_024;

/// Lists messages, one page at a time.
#[utoipa::path(
    get,
    path = "/v1/admin/messages",
    operation_id = "list_messages",
    tag = TAG,
    params(ListRequest),
    responses((status = 200, description = "A page of messages.", body = ListResponse), ReadErrors),
)]
pub(super) async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    page(&call, query::parse(&call.uri)?).await
}

pub(super) async fn page(call: &Call<'_>, list: ListRequest) -> Result<Response, ApiError> {
    let namespace = view::namespace(list.namespace);
    call.check_in(namespace, list.topic.as_deref())?;
    let mut query = MessageQuery::all(namespace);
    query.state = list.state.map(view::state);
    query.dead = list.reason.map(view::reason);
    query.topic = list.topic.map(Topic::new).transpose()?;
    query.source = list.source.map(Source::new).transpose()?;
    query.direction = match list.sort.unwrap_or_default() {
        SortOrder::Oldest => Direction::OldestFirst,
        SortOrder::Newest => Direction::NewestFirst,
    };
    let max = PageSize::MAX.get();
    let size = list.limit.unwrap_or(PAGE_DEFAULT);
    let size = PageSize::new(size).map_err(|_| ApiError::schema(format!("limit must be from 1 to {max}")))?;
    query.size = size;
    let after = list.after.as_deref().map(str::parse::<Cursor>).transpose();
    query.after =
        after.map_err(|_| ApiError::schema("after is not valid: use the `next` of the previous page"))?;
    let page = call.app.operator(namespace, "").page(&query).await?;
    let next = page.next.map(|next| next.to_string());
    body::json(&ListResponse { messages: page.messages.iter().map(view::details).collect(), next })
}

/// Shows all details of a message.
#[utoipa::path(
    get,
    path = "/v1/admin/messages/{msg_id}",
    operation_id = "show_message",
    tag = TAG,
    params(("msg_id" = String, Path, description = "A ULID or a UUID.", pattern = "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$"), ShowRequest),
    responses((status = 200, description = "The message.", body = MessageDetails), NotFound, ReadErrors),
)]
pub(super) async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let show: ShowRequest = query::parse(&call.uri)?;
    show_message(&call, MessageRef::Uid(segment::uid(&call.parameter())?), show, None).await
}

/// Finds a message by its key.
///
/// Returns the newest message under this key, also if it no longer holds the key: `keyed` says whether it does. `older`
/// lists the other messages.
#[utoipa::path(
    get,
    path = "/v1/admin/messages/by-key",
    operation_id = "find_message",
    tag = TAG,
    params(ByKeyRequest),
    responses((status = 200, description = "The message.", body = MessageDetails), NotFound, ReadErrors),
)]
pub(super) async fn show_by_key(call: Call<'_>) -> Result<Response, ApiError> {
    let by: ByKeyRequest = query::parse(&call.uri)?;
    let namespace = view::namespace(by.namespace);
    let source = match (by.source, namespace) {
        (Some(source), _) => source,
        (None, Namespace::Ledger) => "ledger".to_owned(),
        (None, _) => return Err(ApiError::schema("source is missing: in the mailbox, it is the topic")),
    };
    let key = Key::new(namespace, Source::new(source)?, Id::new(by.id)?);
    let limit = PageSize::new(OLDER_MAX + 1).map_err(oncebox::Error::from)?;
    let found = call.app.operator(namespace, "").with_key(&key, limit).await?;
    let Some((newest, older)) = found.split_first() else { return Err(message_not_found(&call)) };
    check_found(&call, namespace, newest.content.as_ref().map(|content| content.topic.as_str()))?;
    let mut message = view::details(newest);
    if by.payload.unwrap_or(false) {
        // It may have been removed in the meantime.
        let whole = call.app.operator(namespace, "").show(newest.uid).await?;
        let whole = whole.ok_or_else(|| message_not_found(&call))?;
        message = view::details_with_payload(whole, true);
    }
    message.older = older.iter().map(|older| MsgId::from(older.uid).to_string()).collect();
    body::json(&message)
}

/// Whether the token allows to see a message. If not, the answer does not tell that it exists.
fn check_found(call: &Call<'_>, namespace: Namespace, topic: Option<&str>) -> Result<(), ApiError> {
    call.check_in(namespace, topic).map_err(|_| message_not_found(call))
}

fn message_not_found(call: &Call<'_>) -> ApiError {
    let text = match call.access.limits() {
        None => "no such message: it never existed, or its retention has ended",
        Some(_) => {
            "no such message: it never existed, its retention has ended, or the token does not allow to see it"
        }
    };
    ApiError::new(ErrorCode::NotFound, text)
}

/// Responds with a message; if a state is given, only with a mailbox message in that state.
pub(super) async fn show_message(
    call: &Call<'_>,
    target: MessageRef,
    show: ShowRequest,
    dead_letter: Option<MessageState>,
) -> Result<Response, ApiError> {
    let found = call.app.operator(Namespace::Mailbox, "").show(target).await?;
    let found = found.filter(|found| {
        dead_letter.is_none_or(|state| found.state == state && found.key.namespace == Namespace::Mailbox)
    });
    let found = found.ok_or_else(|| message_not_found(call))?;
    let topic = found.content.as_ref().map(|content| content.topic.as_str());
    check_found(call, found.key.namespace, topic)?;
    body::json(&view::details_with_payload(found, show.payload.unwrap_or(false)))
}

/// Redrives dead messages, selected by id or by filter.
#[utoipa::path(
    post,
    path = "/v1/admin/messages/redrive",
    operation_id = "redrive_messages",
    tag = TAG,
    request_body = wire::schema::RedriveMessagesSchema,
    responses((status = 200, description = "Result of the redrive.", body = SweepResponse), NotFound, BodyErrors),
)]
pub(super) async fn redrive(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (operator, sweep) = sweep_of(&mut call).await?;
    if sweep.state.is_some_and(|state| view::state(state) != MessageState::Dead) {
        return Err(ApiError::schema("only dead messages can be redriven: omit state"));
    }
    body::json(&super::redrive::run(call.app, &operator, &sweep).await?)
}

/// Erases messages completely, including their keys.
#[utoipa::path(
    post,
    path = "/v1/admin/messages/purge",
    operation_id = "purge_messages",
    tag = TAG,
    request_body = wire::schema::PurgeSchema,
    responses((status = 200, description = "Result of the purge.", body = SweepResponse), BodyErrors),
)]
pub(super) async fn purge(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (operator, sweep) = sweep_of(&mut call).await?;
    if !sweep.confirm && !sweep.dry_run {
        return Err(ApiError::schema(
            "a purge cannot be undone: preview it with `dry_run`, then set `confirm`",
        ));
    }
    if sweep.ids.is_empty() {
        let filter = sweep::filter(&sweep)?;
        let swept =
            if sweep.dry_run { operator.preview(&filter).await } else { operator.purge(&filter).await };
        return body::json(&sweep::response(swept?, &sweep));
    }
    let found = sweep::named(&operator, &sweep).await?.into_iter().flatten();
    let targets: Vec<_> = found.map(|(target, _)| target).collect();
    let operated = if sweep.dry_run { Vec::new() } else { operator.erase_all(&targets).await? };
    body::json(&changed(&targets, &operated, sweep.dry_run))
}

/// Counts messages by state.
#[utoipa::path(
    get,
    path = "/v1/admin/counts",
    operation_id = "count_messages",
    tag = TAG,
    params(CountRequest),
    responses((status = 200, description = "The counts.", body = wire::operator::CountsResponse), ReadErrors),
)]
pub(super) async fn count(call: Call<'_>) -> Result<Response, ApiError> {
    let count: CountRequest = query::parse(&call.uri)?;
    let (namespace, topic) = (view::namespace(count.namespace), count.topic.as_deref());
    call.check_in(namespace, topic)?;
    let counts = call.app.operator(namespace, "").counts(topic).await?;
    body::json(&view::counts(counts))
}

async fn sweep_of(call: &mut Call<'_>) -> Result<(Operator, SweepRequest), ApiError> {
    let (sweep, _permit): (SweepRequest, _) = call.read_json().await?;
    let namespace = view::namespace(sweep.namespace);
    // A token that is limited to topics can select messages by topic only.
    call.check_in(namespace, sweep.topic.as_deref())?;
    let operator = call.app.operator(namespace, &actor(call)?);
    Ok((operator.because(because(sweep.because.as_deref())?), sweep))
}

/// The reason of a request.
pub(super) fn because(because: Option<&str>) -> Result<&str, ApiError> {
    match because.unwrap_or_default() {
        long if long.len() > TEXT_BYTES_MAX => {
            Err(ApiError::schema(format!("because is longer than {TEXT_BYTES_MAX} bytes")))
        }
        because => Ok(because),
    }
}

/// The actor of a request, as far as known.
pub(super) fn actor(call: &Call<'_>) -> Result<String, ApiError> {
    let stated = call.headers.get(header::ACTOR).map(|actor| {
        let actor = actor.to_str().ok().filter(|actor| actor.len() <= TEXT_BYTES_MAX);
        actor.ok_or_else(|| ApiError::schema("X-Actor is longer than 1024 bytes, or not ASCII"))
    });
    let stated = stated.transpose()?;
    // Anybody can state anything, and only the token is verified.
    Ok(match (call.access.limits().map(|grant| grant.holder()), stated) {
        (Some(holder), Some(stated)) => format!("{holder} as {stated}"),
        (Some(holder), None) => holder,
        (None, stated) => stated.unwrap_or("local").to_owned(),
    })
}

fn changed(targets: &[MessageRef], operated: &[Operated], dry_run: bool) -> SweepResponse {
    let changed = operated.iter().filter(|operated| matches!(operated, Operated::Changed(_))).count();
    SweepResponse {
        matched: targets.len() as u64,
        changed: changed as u64,
        dry_run,
        ..SweepResponse::default()
    }
}
