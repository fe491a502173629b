//! Redriving: those named, or those that match.

use oncebox::mailbox::MsgId;
use oncebox::{Filter, MessageState, Namespace, Operated, Operator, Ref, SweepCursor, Timestamp};
use oncebox_wire::Code;
use oncebox_wire::operator::{RefusedMessage, Sweep, Swept};

use super::app::App;
use super::refusal::Refusal;
use super::{operator, view};

/// Messages that one call changes, at most.
const SWEEP_MAX: u32 = 10_000;
/// Longest text that an error is searched for.
const ERROR_BYTES_MAX: usize = 1_024;

/// Redrives what a request asks for, and counts it.
pub(super) async fn by(app: &App, operator: &Operator, sweep: &Sweep) -> Result<Swept, Refusal> {
    let swept = if sweep.ids.is_empty() {
        check_topic(app, operator, sweep).await?;
        let filter = filter(sweep)?;
        let swept = if sweep.dry_run {
            operator.preview(&filter).await
        } else {
            operator.redrive_where(&filter).await
        };
        of(swept?, sweep)
    } else {
        named(operator, sweep).await?
    };
    if view::namespace(sweep.namespace) == Namespace::Mailbox {
        app.meters.redriven(swept.changed);
    }
    Ok(swept)
}

/// A topic that has nothing to process and nothing dead is misspelt, unless the settings or this server know it.
async fn check_topic(app: &App, operator: &Operator, sweep: &Sweep) -> Result<(), Refusal> {
    let Some(topic) = &sweep.topic else { return Ok(()) };
    let mailbox = view::namespace(sweep.namespace) == Namespace::Mailbox;
    if mailbox && app.meters.knows(topic) || operator.topic(topic).await?.is_some() {
        return Ok(());
    }
    let text = format!(
        "the topic `{topic}` has neither unfinished nor dead messages: is it spelt like this? \
         See `/v1/dlq` for dead letters of all topics"
    );
    Err(Refusal::new(Code::NotFound, text))
}

/// Those that a request means, if it does not name them.
pub(super) fn filter(sweep: &Sweep) -> Result<Filter, Refusal> {
    let mut filter = Filter::state(sweep.state.map_or(MessageState::Dead, view::state));
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
            return Err(Refusal::schema(format!("error must have 1 to {ERROR_BYTES_MAX} bytes")));
        }
        filter = filter.error(error);
    }
    if let Some(since) = moment("since", sweep.since.as_deref())? {
        filter = filter.since(since);
    }
    if let Some(until) = moment("until", sweep.until.as_deref())? {
        filter = filter.until(until);
    }
    if let Some(after) = &sweep.after {
        let cursor: Result<SweepCursor, _> = after.parse();
        filter = filter
            .after(cursor.map_err(|_| Refusal::schema("after is not one of ours: take it from `next`"))?);
    }
    Ok(filter.limit(limit(sweep)?))
}

/// How many messages a request changes, or counts, at most.
pub(super) fn limit(sweep: &Sweep) -> Result<u64, Refusal> {
    match sweep.limit {
        Some(limit) if (1..=SWEEP_MAX).contains(&limit) => Ok(u64::from(limit)),
        Some(_) => {
            let text = format!("limit must be from 1 to {SWEEP_MAX}: continue with `after`");
            Err(Refusal::schema(text))
        }
        None if sweep.dry_run => Ok(u64::MAX),
        None => Ok(u64::from(SWEEP_MAX)),
    }
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Refusal> {
    let moment = text.map(str::parse).transpose();
    moment.map_err(|_| Refusal::schema(format!("{name} is not a moment as in 2026-01-01T00:00:00Z")))
}

/// What a sweep did, as it is answered.
pub(super) fn of(swept: oncebox::Sweep, sweep: &Sweep) -> Swept {
    let ids = swept.uids.into_iter().filter(|_| sweep.list).map(|uid| MsgId::from(uid).to_string());
    Swept {
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

/// Redrives messages by name: each that is not redriven is listed with why.
async fn named(operator: &Operator, sweep: &Sweep) -> Result<Swept, Refusal> {
    let found = operator::named(operator, sweep).await?;
    let (mut targets, mut refused, mut unknown) = (Vec::new(), Vec::new(), 0);
    for (id, state) in sweep.ids.iter().zip(found) {
        match state {
            Some((target, MessageState::Dead)) => targets.push((id, target)),
            Some((_, state)) => {
                let text = format!("the message is not dead, it is {}", view::state_name(state));
                refused.push(refusal(id, Code::NotFound, text));
            }
            None => {
                unknown += 1;
                refused.push(refusal(
                    id,
                    Code::NotFound,
                    "there is no such message: check its id".to_owned(),
                ));
            }
        }
    }
    if unknown == sweep.ids.len() {
        let text = "there is no such message: none of the ids belongs to one, check how they are spelt";
        return Err(Refusal::new(Code::NotFound, text));
    }
    let mut swept = Swept { matched: targets.len() as u64, dry_run: sweep.dry_run, ..Swept::default() };
    if !sweep.dry_run {
        let refs: Vec<Ref> = targets.iter().map(|(_, target)| target.clone()).collect();
        for ((id, _), operated) in targets.into_iter().zip(operator.redrive_all(&refs).await?) {
            match operated {
                Operated::Changed(receipt) => {
                    swept.changed += 1;
                    swept.ids.extend(sweep.list.then(|| MsgId::from(receipt.uid).to_string()));
                }
                Operated::Saturated { bound, .. } => {
                    swept.stopped = Some(view::bound(bound));
                    let text = format!("it stays dead: {}; {}", bound.problem(), bound.remedy());
                    refused.push(refusal(id, Code::Saturated, text));
                }
                _ => {
                    let text = "the message is not dead any more: it changed at the same time";
                    refused.push(refusal(id, Code::NotFound, text.to_owned()));
                }
            }
        }
    }
    swept.refused = refused;
    Ok(swept)
}

fn refusal(id: &str, code: Code, message: String) -> RefusedMessage {
    RefusedMessage { id: id.to_owned(), code, message }
}
