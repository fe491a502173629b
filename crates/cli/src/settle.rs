//! Settles deliveries in batches.

use oncebox_client::Client;
use oncebox_client::wire::ErrorCode;
use oncebox_client::wire::mailbox::{SettleBatchRequest, SettleItem, SettleOp, SettleResponse};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{Cell, Output, Progress, Tone, table};
use crate::text;

/// Maximum number of deliveries that one call settles.
const CALL_MAX: usize = 1_000;

/// The result of settling one delivery.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    delivery: String,
    #[serde(flatten)]
    settled: SettleResponse,
}

pub(crate) fn items<'a>(op: SettleOp, deliveries: impl IntoIterator<Item = &'a str>) -> Vec<SettleItem> {
    let item = |delivery: &str| SettleItem { op, delivery: delivery.to_owned(), ..SettleItem::default() };
    deliveries.into_iter().map(item).collect()
}

pub(crate) async fn settle_all(client: &Client, items: Vec<SettleItem>) -> Result<Vec<Outcome>, CliError> {
    let mut outcomes = Vec::with_capacity(items.len());
    let (total, mut progress) = (items.len(), Progress::new());
    for items in items.chunks(CALL_MAX) {
        let answer = client.settle(&SettleBatchRequest { settle: items.to_vec() }).await?;
        let pairs = items.iter().zip(answer.results);
        outcomes.extend(pairs.map(|(item, settled)| Outcome { delivery: item.delivery.clone(), settled }));
        if total > CALL_MAX {
            progress.show(&format!("{} of {total} settled", outcomes.len()));
        }
    }
    Ok(outcomes)
}

/// Prints the result of each delivery; fails if one of them was not settled.
pub(crate) fn print(outcomes: &[Outcome], output: Output) -> Result<(), CliError> {
    output.write_list(outcomes, || {
        let rows: Vec<_> = outcomes.iter().map(row).collect();
        table(output, &["result", "delivery"], &rows)
    })?;
    first_error(outcomes).map_or(Ok(()), Err)
}

fn row(outcome: &Outcome) -> Vec<Cell> {
    let Outcome { delivery, settled } = outcome;
    let result = match settled.code {
        _ if settled.ok => Cell::toned(Tone::Good, "ok"),
        Some(code) => Cell::toned(Tone::Bad, code.as_str()),
        None => Cell::toned(Tone::Bad, "refused"),
    };
    vec![result, Cell::from(delivery)]
}

/// The error of the first delivery that was not settled.
pub(crate) fn first_error(outcomes: &[Outcome]) -> Option<CliError> {
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.settled.ok).collect();
    let first = &failed.first()?.settled;
    let code = first.code.map_or("refused", ErrorCode::as_str);
    let why = first.message.as_deref().unwrap_or("the server gave no reason");
    let count = if outcomes.len() == 1 {
        String::new()
    } else {
        format!("{} of {} were not settled: ", failed.len(), outcomes.len())
    };
    let text = format!("{count}{} ({code})", text::escape(why));
    Some(if first.code.is_some_and(ErrorCode::is_retryable) {
        CliError::Retryable(text)
    } else {
        CliError::Refused(text)
    })
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::ErrorCode;
    use oncebox_client::wire::mailbox::SettleResponse;

    use super::{CliError, Outcome, first_error};

    fn outcome(code: Option<ErrorCode>) -> Outcome {
        let (ok, message) =
            (code.is_none(), code.map(|_| "the lease is lost: receive the message again".to_owned()));
        Outcome {
            delivery: "d".into(),
            settled: SettleResponse { ok, code, message, ..SettleResponse::default() },
        }
    }

    #[test]
    fn the_first_failure_is_reported() {
        assert!(first_error(&[outcome(None)]).is_none());
        let lost = first_error(&[outcome(None), outcome(Some(ErrorCode::LeaseLost))]).unwrap();
        let expected = "1 of 2 were not settled: the lease is lost: receive the message again (E_LEASE_LOST)";
        assert!(matches!(lost, CliError::Refused(text) if text == expected));
        assert!(matches!(
            first_error(&[outcome(Some(ErrorCode::Unavailable))]),
            Some(CliError::Retryable(_))
        ));
    }

    #[test]
    fn an_outcome_serializes_as_one_object() {
        let json = serde_json::to_string(&outcome(None)).unwrap();
        assert_eq!(json, r#"{"delivery":"d","ok":true}"#);
    }
}
