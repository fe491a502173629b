//! The canary: the first messages of a redrive, polled until they are handled or fail again.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::ErrorCode;
use oncebox_client::wire::operator::{MessageDetails, ShowRequest, StateName};
use tokio::time::{Instant, sleep};

use crate::error::CliError;
use crate::text;

/// The pause between two polls.
const INTERVAL: Duration = Duration::from_millis(250);

/// The state of a canary message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CanaryState {
    Waiting,
    Handled,
    Failed,
}

/// A redrive resets the attempts, so any attempt is a failure since then.
fn canary_state(message: &MessageDetails) -> CanaryState {
    match message.state {
        StateName::Done => CanaryState::Handled,
        StateName::Dead => CanaryState::Failed,
        _ if message.attempts > 0 => CanaryState::Failed,
        _ => CanaryState::Waiting,
    }
}

/// Waits until all messages are handled. Fails as soon as one fails again, and after the timeout.
pub(super) async fn wait(client: &Client, ids: &[String], timeout: Duration) -> Result<(), CliError> {
    let (deadline, mut waiting) = (Instant::now() + timeout, ids.to_vec());
    loop {
        let mut still_waiting = Vec::new();
        for id in waiting {
            let message = match client.message(&id, &ShowRequest::default()).await {
                Ok(message) => message,
                // A handled message may already be erased by retention.
                Err(error) if error.code() == Some(ErrorCode::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            match canary_state(&message) {
                CanaryState::Waiting => still_waiting.push(id),
                CanaryState::Handled => {}
                CanaryState::Failed => return Err(failed(&message, ids.len())),
            }
        }
        if still_waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(CliError::Retryable(format!(
                "stopped: {} of the {} canary messages are not handled after {} s, and none failed; \
                 start a receiver, or raise --canary-wait; the others are still dead letters",
                still_waiting.len(),
                ids.len(),
                timeout.as_secs()
            )));
        }
        waiting = still_waiting;
        sleep(INTERVAL).await;
    }
}

fn failed(message: &MessageDetails, canary: usize) -> CliError {
    let error = message.last_error.as_deref().unwrap_or("no error was given");
    CliError::failed(text::escape(&format!(
        "stopped: of the {canary} canary messages, {} failed again with: {error}; \
         the others are still dead letters: fix the receiver first",
        message.msg_id
    )))
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::operator::MessageDetails;

    use super::{CanaryState, canary_state};

    #[test]
    fn one_failure_fails_the_canary() {
        for (state, attempts, expected) in [
            ("processing", 0, CanaryState::Waiting),
            ("processing", 1, CanaryState::Failed),
            ("dead", 0, CanaryState::Failed),
            ("done", 0, CanaryState::Handled),
            ("done", 2, CanaryState::Handled),
        ] {
            let text = format!(
                r#"{{"msg_id":"m","uid":"u","namespace":"mailbox","source":"t","id":"k","state":"{state}",
                "attempts":{attempts},"deliveries":3,"redrives":1,"accepted_at":"T1","last_seen_at":"T2","keyed":false}}"#
            );
            let message: MessageDetails = serde_json::from_str(&text).unwrap();
            assert_eq!(canary_state(&message), expected, "{text}");
        }
    }
}
