//! Topics whose dead letters rise: one line in the log when it begins and one when it ends, and a finding in between.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::DeadReason;
use tokio::time::Instant;
use tracing::{info, warn};

/// The time in which dead letters are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The window moves in pieces of this length.
const PIECE: Duration = Duration::from_secs(5);
/// Pieces of a window.
const PIECES: usize = 12;

/// What a topic's dead letters of the last minute are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rising {
    /// The topic's label in the metrics; none for those that share one.
    pub(crate) topic: Option<Box<str>>,
    /// Dead letters in the last minute.
    pub(crate) count: u64,
    /// The reason of most of them.
    pub(crate) reason: DeadReason,
}

impl Rising {
    /// What an operator should know.
    pub(crate) fn text(&self) -> String {
        let (name, list) = match &self.topic {
            Some(topic) => (format!("topic {}", shell(topic)), format!(" --topic {}", shell(topic))),
            None => ("topics without a label of their own".to_owned(), String::new()),
        };
        let Self { count, reason, .. } = self;
        format!(
            "{count} dead letters of {name} in the last minute, most of them {}: see why with \
             `oncebox dlq list{list}`, mend the receiver, then use `oncebox dlq redrive{list}`",
            reason.as_str()
        )
    }
}

/// A name as it can stand on a command line.
fn shell(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
    if name.bytes().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// The dead letters of the last minute, by topic. There are no more topics in it than have labels in the metrics, and one for all
/// others.
pub(crate) struct DeadLetters {
    began: Instant,
    topics: Mutex<BTreeMap<Option<Box<str>>, Topic>>,
}

#[derive(Default)]
struct Topic {
    pieces: [Piece; PIECES],
    rising: bool,
    /// How many are too many; that of the last report.
    most: u64,
}

/// Dead letters of one piece of time.
#[derive(Default)]
struct Piece {
    /// The number of the piece since the beginning.
    number: u64,
    by_reason: BTreeMap<&'static str, (DeadReason, u64)>,
}

impl DeadLetters {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, topics: Mutex::default() }
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<Option<Box<str>>, Topic>> {
        // No update can panic halfway.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn piece(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs() / PIECE.as_secs()
    }

    /// Messages of a topic died. More than `most` within the window are too many; 0 stands for no limit.
    pub(crate) fn died(&self, topic: Option<&str>, reason: DeadReason, count: u64, most: u32, now: Instant) {
        if count == 0 {
            return;
        }
        let (piece, mut topics) = (self.piece(now), self.topics());
        let known = topics.entry(topic.map(Into::into)).or_default();
        known.most = u64::from(most);
        known.add(piece, reason, count);
        let (sum, reason) = known.sum(piece);
        if known.rising || most == 0 || sum <= known.most {
            return;
        }
        known.rising = true;
        let rising = Rising { topic: topic.map(Into::into), count: sum, reason };
        let (topic, reason) = (topic.unwrap_or(crate::meters::OTHER), reason.as_str());
        warn!(topic, count = sum, reason, limit = most, "dead letters are rising: {}", rising.text());
    }

    /// The topics whose dead letters rise. That one has calmed is logged: it has at most half of what is too many.
    pub(crate) fn current(&self, now: Instant) -> Vec<Rising> {
        let (piece, mut rising) = (self.piece(now), Vec::new());
        self.topics().retain(|topic, known| {
            let (count, reason) = known.sum(piece);
            if known.rising && (known.most == 0 || count <= known.most / 2) {
                known.rising = false;
                let topic = topic.as_deref().unwrap_or(crate::meters::OTHER);
                info!(topic, count, "dead letters are not rising any more");
            }
            if known.rising {
                rising.push(Rising { topic: topic.clone(), count, reason });
            }
            known.rising || count > 0
        });
        rising
    }
}

impl Topic {
    fn add(&mut self, number: u64, reason: DeadReason, count: u64) {
        let place = usize::try_from(number % PIECES as u64).unwrap_or_default();
        let Some(piece) = self.pieces.get_mut(place) else { return };
        if piece.number != number {
            *piece = Piece { number, by_reason: BTreeMap::new() };
        }
        piece.by_reason.entry(reason.as_str()).or_insert((reason, 0)).1 += count;
    }

    /// How many died in the window that ends with this piece, and why most of them did.
    fn sum(&self, number: u64) -> (u64, DeadReason) {
        let mut by_reason: BTreeMap<&str, (DeadReason, u64)> = BTreeMap::new();
        for piece in self.pieces.iter().filter(|piece| piece.number + PIECES as u64 > number) {
            for (name, (reason, count)) in &piece.by_reason {
                by_reason.entry(name).or_insert((*reason, 0)).1 += count;
            }
        }
        let most = by_reason.values().max_by_key(|(_, count)| *count);
        let reason = most.map_or(DeadReason::Failed, |(reason, _)| *reason);
        (by_reason.values().map(|(_, count)| count).sum(), reason)
    }
}

const _: () = assert!(WINDOW.as_secs() == PIECE.as_secs() * PIECES as u64, "the pieces make the window");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox::DeadReason;
    use tokio::time::Instant;

    use super::{DeadLetters, shell};

    #[test]
    fn more_than_the_limit_within_a_minute_rise_until_half_of_it() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let letters = DeadLetters::new(began);
        let died = |reason, count, seconds| letters.died(Some("t"), reason, count, 10, at(seconds));
        died(DeadReason::Failed, 4, 0);
        died(DeadReason::Exhausted, 6, 30);
        assert_eq!(letters.current(at(30)), [], "ten are not more than ten");
        died(DeadReason::Exhausted, 1, 59);
        let [rising] = &letters.current(at(59))[..] else { panic!("eleven are") };
        assert_eq!((rising.count, rising.reason), (11, DeadReason::Exhausted));
        let text = rising.text();
        assert!(
            text.contains("11 dead letters of topic t") && text.contains("most of them exhausted"),
            "{text}"
        );
        assert!(text.contains("`oncebox dlq list --topic t`"), "{text}");
        assert_eq!(letters.current(at(70)).len(), 1, "seven are more than half");
        assert_eq!(letters.current(at(95)), [], "one is not");
        assert!(!letters.topics().is_empty(), "it may rise again");
        letters.current(at(200));
        assert!(letters.topics().is_empty(), "what is over is forgotten");
    }

    #[test]
    fn a_limit_of_zero_reports_nothing_and_topics_are_counted_apart() {
        let now = Instant::now();
        let letters = DeadLetters::new(now);
        letters.died(Some("quiet"), DeadReason::Failed, 1_000, 0, now);
        letters.died(Some("a"), DeadReason::Failed, 3, 4, now);
        letters.died(None, DeadReason::Expired, 5, 4, now);
        let rising = letters.current(now);
        assert_eq!(rising.len(), 1, "{rising:?}");
        assert!(rising[0].text().contains("`oncebox dlq list`"), "{rising:?}");
    }

    #[test]
    fn a_name_stays_one_word_of_a_command_line() {
        assert_eq!(shell("orders.eu/1"), "orders.eu/1");
        assert_eq!(shell("it's $HOME"), r"'it'\''s $HOME'");
    }
}
