//! The canary: the first messages of a redrive, watched until they are handled or fail again.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::Code;
use oncebox_client::wire::operator::{Message, Show, State};
use tokio::time::{Instant, sleep};

use crate::text;
use crate::trouble::Trouble;

/// The pause between two readings.
const INTERVAL: Duration = Duration::from_millis(250);

/// What is known of a message that was redriven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Waiting,
    Handled,
    Failed,
}

/// A redrive resets the attempts, so one attempt is one failure since.
fn fate(message: &Message) -> Fate {
    match message.state {
        State::Done => Fate::Handled,
        State::Dead => Fate::Failed,
        _ if message.attempts > 0 => Fate::Failed,
        _ => Fate::Waiting,
    }
}

/// Waits until all are handled. Fails with the first that fails again, or when the time is over.
pub(super) async fn wait(client: &Client, ids: &[String], most: Duration) -> Result<(), Trouble> {
    let (until, mut waiting) = (Instant::now() + most, ids.to_vec());
    loop {
        let mut still = Vec::new();
        for id in waiting {
            let message = match client.message(&id, &Show::default()).await {
                Ok(message) => message,
                // What is handled is forgotten one day.
                Err(error) if error.code() == Some(Code::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            match fate(&message) {
                Fate::Waiting => still.push(id),
                Fate::Handled => {}
                Fate::Failed => return Err(failed(&message, ids.len())),
            }
        }
        if still.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Trouble::Later(format!(
                "stopped: {} of the {} that were redriven first are not handled after {} s, and none failed; \
                 start a receiver, or raise --canary-wait; the others are dead letters as before",
                still.len(),
                ids.len(),
                most.as_secs()
            )));
        }
        waiting = still;
        sleep(INTERVAL).await;
    }
}

fn failed(message: &Message, canary: usize) -> Trouble {
    let error = message.last_error.as_deref().unwrap_or("no error was given");
    Trouble::failed(text::plain(&format!(
        "stopped: of the {canary} that were redriven first, {} failed again with: {error}; \
         the others are dead letters as before: mend the receiver first",
        message.msg_id
    )))
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::operator::Message;

    use super::{Fate, fate};

    #[test]
    fn one_failure_is_enough() {
        for (state, attempts, expected) in [
            ("processing", 0, Fate::Waiting),
            ("processing", 1, Fate::Failed),
            ("dead", 0, Fate::Failed),
            ("done", 0, Fate::Handled),
            ("done", 2, Fate::Handled),
        ] {
            let text = format!(
                r#"{{"msg_id":"m","uid":"u","namespace":"mailbox","source":"t","id":"k","state":"{state}",
                "attempts":{attempts},"deliveries":3,"redrives":1,"accepted_at":"T1","last_seen_at":"T2","keyed":false}}"#
            );
            let message: Message = serde_json::from_str(&text).unwrap();
            assert_eq!(fate(&message), expected, "{text}");
        }
    }
}
