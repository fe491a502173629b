//! Settling deliveries by hand, many at once.

use oncebox_client::Client;
use oncebox_client::wire::Code;
use oncebox_client::wire::mailbox::{Op, Settle, SettleItem, Settled};
use serde::Serialize;

use crate::output::{Cell, Output, Progress, Tone, table};
use crate::text;
use crate::trouble::Trouble;

/// Deliveries that one call settles, at most.
const CALL_MAX: usize = 1_000;

/// What became of a delivery.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    delivery: String,
    #[serde(flatten)]
    settled: Settled,
}

pub(crate) fn items<'a>(op: Op, deliveries: impl IntoIterator<Item = &'a str>) -> Vec<SettleItem> {
    let item = |delivery: &str| SettleItem { op, delivery: delivery.to_owned(), ..SettleItem::default() };
    deliveries.into_iter().map(item).collect()
}

pub(crate) async fn all(client: &Client, items: Vec<SettleItem>) -> Result<Vec<Outcome>, Trouble> {
    let mut outcomes = Vec::with_capacity(items.len());
    let (all, mut progress) = (items.len(), Progress::new());
    for items in items.chunks(CALL_MAX) {
        let answer = client.settle(&Settle { settle: items.to_vec() }).await?;
        let pairs = items.iter().zip(answer.results);
        outcomes.extend(pairs.map(|(item, settled)| Outcome { delivery: item.delivery.clone(), settled }));
        if all > CALL_MAX {
            progress.show(&format!("{} of {all} settled", outcomes.len()));
        }
    }
    Ok(outcomes)
}

/// Writes what became of each, and fails if one does not count.
pub(crate) fn tell(outcomes: &[Outcome], output: Output) -> Result<(), Trouble> {
    output.many(outcomes, || {
        let rows: Vec<_> = outcomes.iter().map(row).collect();
        table(output, &["result", "delivery"], &rows)
    })?;
    trouble(outcomes).map_or(Ok(()), Err)
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

/// Why the first that does not count does not.
pub(crate) fn trouble(outcomes: &[Outcome]) -> Option<Trouble> {
    let lost: Vec<_> = outcomes.iter().filter(|outcome| !outcome.settled.ok).collect();
    let first = &lost.first()?.settled;
    let code = first.code.map_or("refused", Code::as_str);
    let why = first.message.as_deref().unwrap_or("the server did not say why");
    let many = if outcomes.len() == 1 {
        String::new()
    } else {
        format!("{} of {} do not count: ", lost.len(), outcomes.len())
    };
    let text = format!("{many}{} ({code})", text::plain(why));
    Some(if first.code.is_some_and(Code::is_retryable) {
        Trouble::Later(text)
    } else {
        Trouble::Refused(text)
    })
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::Code;
    use oncebox_client::wire::mailbox::Settled;

    use super::{Outcome, Trouble, trouble};

    fn outcome(code: Option<Code>) -> Outcome {
        let (ok, message) = (code.is_none(), code.map(|_| "it is gone: receive it again".to_owned()));
        Outcome { delivery: "d".into(), settled: Settled { ok, code, message, ..Settled::default() } }
    }

    #[test]
    fn the_first_that_does_not_count_is_told() {
        assert!(trouble(&[outcome(None)]).is_none());
        let lost = trouble(&[outcome(None), outcome(Some(Code::LeaseLost))]).unwrap();
        let told = "1 of 2 do not count: it is gone: receive it again (E_LEASE_LOST)";
        assert!(matches!(lost, Trouble::Refused(text) if text == told));
        assert!(matches!(trouble(&[outcome(Some(Code::Unavailable))]), Some(Trouble::Later(_))));
    }

    #[test]
    fn an_outcome_is_one_object() {
        let json = serde_json::to_string(&outcome(None)).unwrap();
        assert_eq!(json, r#"{"delivery":"d","ok":true}"#);
    }
}
