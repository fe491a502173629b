//! What each actor uses: a connection to the server, the shared history and a random generator.

use std::sync::{Mutex, MutexGuard, PoisonError};

use oncebox_audit::server::ServerHistory;
use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use serde_json::Value;

use super::http::{Connection, Response};
use crate::Failure;

/// The topics of all messages.
const TOPICS: [&str; 3] = ["orders", "mails", "bills"];

/// A user of the server, which makes one step after another.
pub(super) trait Actor: Send {
    /// Makes one step. An I/O error means that a response did not arrive.
    fn step(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure>;
}

pub(super) struct TestClient<'a> {
    address: String,
    pub(super) connection: Connection,
    history: &'a Mutex<ServerHistory>,
    random: SplitMix,
}

impl<'a> TestClient<'a> {
    pub(super) fn new(address: &str, history: &'a Mutex<ServerHistory>, seed: u64) -> Result<Self, Failure> {
        let (address, random) = (address.to_owned(), SplitMix::new(seed));
        Ok(Self { connection: Connection::open(&address)?, address, history, random })
    }

    /// Opens a new connection; unread data on the old one is dropped.
    pub(super) fn reconnect(&mut self) -> Result<(), Failure> {
        self.connection = Connection::open(&self.address)?;
        Ok(())
    }

    pub(super) fn history(&self) -> MutexGuard<'a, ServerHistory> {
        lock(self.history)
    }

    /// The history, for recording while a stream is read.
    pub(super) fn shared_history(&self) -> &'a Mutex<ServerHistory> {
        self.history
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// The topic of a key; a function of the key alone.
    pub(super) fn topic_of(key: &str) -> &'static str {
        TOPICS[key.bytes().map(usize::from).sum::<usize>() % TOPICS.len()]
    }

    pub(super) fn any_topic(&mut self) -> &'static str {
        TOPICS[usize::try_from(self.below(3)).unwrap_or_default()]
    }

    /// Sends a request. Fails unless the status is 200, 429 or one of `also`.
    pub(super) fn post(&mut self, path: &str, body: &Value, also: &[u16]) -> Result<Response, Failure> {
        let response = self.connection.post(path, body)?;
        if response.status == 200 || response.status == 429 || also.contains(&response.status) {
            return Ok(response);
        }
        Err(format!("POST {path} {body} returned {} {}", response.status, response.body).into())
    }

    pub(super) fn get(&mut self, path: &str) -> Result<Value, Failure> {
        let response = self.connection.get(path)?;
        if response.status == 200 {
            return Ok(response.body);
        }
        Err(format!("GET {path} returned {} {}", response.status, response.body).into())
    }
}

/// All topics.
pub(super) fn topics() -> [&'static str; 3] {
    TOPICS
}

pub(super) fn lock(history: &Mutex<ServerHistory>) -> MutexGuard<'_, ServerHistory> {
    // An actor that panicked fails the campaign anyway.
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A required text field of a response.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Failure> {
    value[name].as_str().ok_or_else(|| format!("the response has no text field {name}: {value}").into())
}

/// A timestamp in a response, such as `2026-11-16T05:58:40.123Z`, in milliseconds.
pub(super) fn timestamp(value: &Value, name: &str) -> Result<u64, Failure> {
    let text = text(value, name)?;
    millis(text).ok_or_else(|| format!("{name} is not a timestamp: {text}").into())
}

fn millis(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator: char| -> Option<Vec<u64>> {
        text.split(separator).map(|part| part.parse().ok()).collect()
    };
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?.try_into().ok()?;
    let thousandths = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    // Count years from March, so that the leap day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + thousandths)
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn parses_timestamps() {
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2000-02-29T23:59:59.5Z"), Some(951_868_799_500));
        assert_eq!(millis("2026-11-16T05:58:40.123Z"), Some(1_794_808_720_123));
        assert_eq!(millis("yesterday"), None);
    }
}
