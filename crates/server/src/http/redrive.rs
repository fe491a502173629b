//! Redriving messages, selected by id or by filter.

use oncebox::mailbox::MsgId;
use oncebox::{
    MessageState, Operator, Timestamp,
    message::Namespace,
    operator::{MessageRef, Operated, SweepCursor, SweepFilter},
};
use oncebox_wire::ErrorCode;
use oncebox_wire::operator::{RefusedMessage, SweepRequest, SweepResponse};

use super::api_error::ApiError;
use super::app::App;
use super::{operator, view};

/// Maximum number of messages that one request changes.
const SWEEP_MAX: u32 = 10_000;
/// Maximum length of the text that errors are filtered by.
const ERROR_BYTES_MAX: usize = 1_024;

/// Redrives the messages of a request, and counts them.
pub(super) async fn run(
    app: &App,
    operator: &Operator,
    sweep: &SweepRequest,
) -> Result<SweepResponse, ApiError> {
    let swept = if sweep.ids.is_empty() {
        check_topic(app, operator, sweep).await?;
        let filter = filter(sweep)?;
        let swept = if sweep.dry_run {
            operator.preview(&filter).await
        } else {
            operator.redrive_where(&filter).await
        };
        response(swept?, sweep)
    } else {
        named(operator, sweep).await?
    };
    if view::namespace(sweep.namespace) == Namespace::Mailbox {
        app.metrics.redriven(swept.changed);
    }
    Ok(swept)
}

/// Rejects a topic without unfinished and dead messages as misspelt, unless it is named in the settings or known to
/// this server.
async fn check_topic(app: &App, operator: &Operator, sweep: &SweepRequest) -> Result<(), ApiError> {
    let Some(topic) = &sweep.topic else { return Ok(()) };
    let mailbox = view::namespace(sweep.namespace) == Namespace::Mailbox;
    if mailbox && app.metrics.has_label(topic) || operator.topic(topic).await?.is_some() {
        return Ok(());
    }
    let text = format!(
        "the topic `{topic}` has neither unfinished nor dead messages: check its spelling; \
         `/v1/dlq` lists the dead letters of all topics"
    );
    Err(ApiError::new(ErrorCode::NotFound, text))
}

/// Builds the filter of a request without ids.
pub(super) fn filter(sweep: &SweepRequest) -> Result<SweepFilter, ApiError> {
    let mut filter = SweepFilter::state(sweep.state.map_or(MessageState::Dead, view::state));
    if let Some(reason) = sweep.reason {
        filter = filter.reason(view::reason(reason));
    }
    if let Some(topic) = &sweep.topic {
        filter = filter.topic(topic);
    }
    if let Some(source) = &sweep.source {
        filter = filter.source(source);
    }
    if let Some(error) = &sweep.error {
        if error.is_empty() || error.len() > ERROR_BYTES_MAX {
            return Err(ApiError::schema(format!("error must have 1 to {ERROR_BYTES_MAX} bytes")));
        }
        filter = filter.error(error);
    }
    if let Some(since) = timestamp("since", sweep.since.as_deref())? {
        filter = filter.since(since);
    }
    if let Some(until) = timestamp("until", sweep.until.as_deref())? {
        filter = filter.until(until);
    }
    if let Some(after) = &sweep.after {
        let cursor: Result<SweepCursor, _> = after.parse();
        filter = filter.after(
            cursor
                .map_err(|_| ApiError::schema("after is not valid: use the `next` of the previous call"))?,
        );
    }
    Ok(filter.limit(limit(sweep)?))
}

/// Maximum number of messages that a request changes or counts.
pub(super) fn limit(sweep: &SweepRequest) -> Result<u64, ApiError> {
    match sweep.limit {
        Some(limit) if (1..=SWEEP_MAX).contains(&limit) => Ok(u64::from(limit)),
        Some(_) => {
            let text = format!("limit must be from 1 to {SWEEP_MAX}: continue with `after`");
            Err(ApiError::schema(text))
        }
        None if sweep.dry_run => Ok(u64::MAX),
        None => Ok(u64::from(SWEEP_MAX)),
    }
}

fn timestamp(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let timestamp = text.map(str::parse).transpose();
    timestamp.map_err(|_| ApiError::schema(format!("{name} is not a timestamp such as 2026-01-01T00:00:00Z")))
}

/// Converts the result of a sweep.
pub(super) fn response(swept: oncebox::operator::Sweep, sweep: &SweepRequest) -> SweepResponse {
    let ids = swept.uids.into_iter().filter(|_| sweep.list).map(|uid| MsgId::from(uid).to_string());
    SweepResponse {
        matched: swept.matched,
        changed: swept.changed,
        skipped: swept.skipped,
        dry_run: sweep.dry_run,
        more: swept.more,
        next: swept.next.map(|next| next.to_string()),
        ids: ids.collect(),
        refused: Vec::new(),
        stopped: swept.stopped.map(view::bound),
    }
}

/// Redrives messages by id; those that are not redriven are listed with the reason.
async fn named(operator: &Operator, sweep: &SweepRequest) -> Result<SweepResponse, ApiError> {
    let found = operator::named(operator, sweep).await?;
    let (mut targets, mut refused, mut unknown) = (Vec::new(), Vec::new(), 0);
    for (id, state) in sweep.ids.iter().zip(found) {
        match state {
            Some((target, MessageState::Dead)) => targets.push((id, target)),
            Some((_, state)) => {
                let text = format!("the message is not dead, it is {}", view::state_name(state));
                refused.push(refused_message(id, ErrorCode::NotFound, text));
            }
            None => {
                unknown += 1;
                refused.push(refused_message(
                    id,
                    ErrorCode::NotFound,
                    "no such message: check its id".to_owned(),
                ));
            }
        }
    }
    if unknown == sweep.ids.len() {
        let text = "no such message: none of the ids exists, check their spelling";
        return Err(ApiError::new(ErrorCode::NotFound, text));
    }
    let mut swept =
        SweepResponse { matched: targets.len() as u64, dry_run: sweep.dry_run, ..SweepResponse::default() };
    if !sweep.dry_run {
        let refs: Vec<MessageRef> = targets.iter().map(|(_, target)| target.clone()).collect();
        for ((id, _), operated) in targets.into_iter().zip(operator.redrive_all(&refs).await?) {
            match operated {
                Operated::Changed(receipt) => {
                    swept.changed += 1;
                    swept.ids.extend(sweep.list.then(|| MsgId::from(receipt.uid).to_string()));
                }
                Operated::Saturated { bound, .. } => {
                    swept.stopped = Some(view::bound(bound));
                    let text = format!("the message stays dead: {}; {}", bound.problem(), bound.remedy());
                    refused.push(refused_message(id, ErrorCode::Saturated, text));
                }
                _ => {
                    let text = "the message is no longer dead: it was changed concurrently";
                    refused.push(refused_message(id, ErrorCode::NotFound, text.to_owned()));
                }
            }
        }
    }
    swept.refused = refused;
    Ok(swept)
}

fn refused_message(id: &str, code: ErrorCode, message: String) -> RefusedMessage {
    RefusedMessage { id: id.to_owned(), code, message }
}
