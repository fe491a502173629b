//! Redriving messages, selected by id or by filter.

use oncebox::mailbox::MsgId;
use oncebox::{
    MessageState, Operator,
    message::Namespace,
    operator::{MessageRef, Operated},
};
use oncebox_wire::ErrorCode;
use oncebox_wire::operator::{RefusedMessage, SweepRequest, SweepResponse};

use super::api_error::ApiError;
use super::app::App;
use super::{sweep, view};

/// Redrives the messages of a request, and counts them.
pub(super) async fn run(
    app: &App,
    operator: &Operator,
    sweep: &SweepRequest,
) -> Result<SweepResponse, ApiError> {
    let swept = if sweep.ids.is_empty() {
        check_topic(app, operator, sweep).await?;
        let filter = sweep::filter(sweep)?;
        let swept = if sweep.dry_run {
            operator.preview(&filter).await
        } else {
            operator.redrive_where(&filter).await
        };
        sweep::response(swept?, sweep)
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

/// Redrives messages by id; those that are not redriven are listed with the reason.
async fn named(operator: &Operator, sweep: &SweepRequest) -> Result<SweepResponse, ApiError> {
    let found = sweep::named(operator, sweep).await?;
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
