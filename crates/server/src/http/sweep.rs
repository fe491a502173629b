//! Sweeps: the messages that a request selects by id or by filter, and what was done with them.

use oncebox::mailbox::MsgId;
use oncebox::{
    MessageState, Operator, Timestamp,
    operator::{MessageRef, SweepCursor, SweepFilter},
};
use oncebox_wire::operator::{SweepRequest, SweepResponse};

use super::api_error::ApiError;
use super::{segment, view};

/// Maximum number of messages that one request changes.
const SWEEP_MAX: u32 = 10_000;
/// Maximum length of the text that errors are filtered by.
const ERROR_BYTES_MAX: usize = 1_024;
/// Maximum number of ids in a request.
const IDS_MAX: usize = 1_000;

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
fn limit(sweep: &SweepRequest) -> Result<u64, ApiError> {
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

/// Looks up the messages with these ids, each with its state; `None` for messages that do not exist or belong to
/// another namespace.
pub(super) async fn named(
    operator: &Operator,
    sweep: &SweepRequest,
) -> Result<Vec<Option<(MessageRef, MessageState)>>, ApiError> {
    // A valid limit has no effect, because the ids determine the messages.
    limit(sweep)?;
    if sweep.ids.len() > IDS_MAX {
        return Err(ApiError::schema(format!("more than {IDS_MAX} ids: split the request")));
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
        return Err(ApiError::schema("ids cannot be combined with filters"));
    }
    let namespace = view::namespace(sweep.namespace);
    let mut named = Vec::with_capacity(sweep.ids.len());
    for id in &sweep.ids {
        let target = MessageRef::Uid(segment::uid(id)?);
        let found = operator.show(target.clone()).await?;
        let found = found.filter(|found| found.key.namespace == namespace);
        named.push(found.map(|found| (target, found.state)));
    }
    Ok(named)
}
