//! What every caller has: a connection, the book, chance, and the time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use oncebox_audit::server::Book;
use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use serde_json::Value;

use super::http::{Answer, Connection};
use crate::Failure;

/// Where messages go.
const TOPICS: [&str; 3] = ["orders", "mails", "bills"];

/// Somebody who calls, one step after another.
pub(super) trait Role: Send {
    /// One step. An I/O error means that an answer did not come.
    fn step(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure>;
}

pub(super) struct Desk<'a> {
    address: String,
    pub(super) connection: Connection,
    book: &'a Mutex<Book>,
    random: SplitMix,
}

impl<'a> Desk<'a> {
    pub(super) fn new(address: &str, book: &'a Mutex<Book>, seed: u64) -> Result<Self, Failure> {
        let (address, random) = (address.to_owned(), SplitMix::new(seed));
        Ok(Self { connection: Connection::open(&address)?, address, book, random })
    }

    /// Leaves the connection and whatever still comes on it.
    pub(super) fn reconnect(&mut self) -> Result<(), Failure> {
        self.connection = Connection::open(&self.address)?;
        Ok(())
    }

    pub(super) fn book(&self) -> MutexGuard<'a, Book> {
        locked(self.book)
    }

    /// The book, for those who write into it while they hear.
    pub(super) fn shared(&self) -> &'a Mutex<Book> {
        self.book
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// The topic of a key, always the same.
    pub(super) fn topic_of(key: &str) -> &'static str {
        TOPICS[key.bytes().map(usize::from).sum::<usize>() % TOPICS.len()]
    }

    pub(super) fn any_topic(&mut self) -> &'static str {
        TOPICS[usize::try_from(self.below(3)).unwrap_or_default()]
    }

    /// Asks, and takes 200, what the caller expects beside it, and "too much at once".
    pub(super) fn post(&mut self, path: &str, body: &Value, also: &[u16]) -> Result<Answer, Failure> {
        let answer = self.connection.post(path, body)?;
        if answer.status == 200 || answer.status == 429 || also.contains(&answer.status) {
            return Ok(answer);
        }
        Err(format!("POST {path} {body} was answered {} {}", answer.status, answer.body).into())
    }

    pub(super) fn get(&mut self, path: &str) -> Result<Value, Failure> {
        let answer = self.connection.get(path)?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        Err(format!("GET {path} was answered {} {}", answer.status, answer.body).into())
    }
}

/// All topics.
pub(super) fn topics() -> [&'static str; 3] {
    TOPICS
}

pub(super) fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    // A caller that panicked fails the campaign anyway.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A field of an answer that must be there.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Failure> {
    value[name].as_str().ok_or_else(|| format!("the answer has no {name}: {value}").into())
}

/// A moment of an answer, in milliseconds: `2026-11-16T05:58:40.123Z`.
pub(super) fn moment(value: &Value, name: &str) -> Result<u64, Failure> {
    let text = text(value, name)?;
    millis(text).ok_or_else(|| format!("{name} is no moment: {text}").into())
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
    // Years begin with March, so that the leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + thousandths)
}

#[cfg(test)]
mod tests {
    use super::millis;

    #[test]
    fn moments_are_read() {
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("2000-02-29T23:59:59.5Z"), Some(951_868_799_500));
        assert_eq!(millis("2026-11-16T05:58:40.123Z"), Some(1_794_808_720_123));
        assert_eq!(millis("yesterday"), None);
    }
}
