//! Upkeep: what is forgotten, and when there is something to do.

use std::time::Duration;

use oncebox_core::{Budget, DeadLetters, Namespace, Number, Snapshot, State, Timestamp, Topic, Uid};

use super::{Facts, Model};

/// How long a finished message answers the repeat of its settlement.
const REPEAT: Duration = Duration::from_mins(10);

impl Model {
    /// Forgets everything that the retentions of the budget allow, whatever its size; tells how many.
    pub fn upkeep(&mut self, budget: &Budget) -> u64 {
        self.catch_up();
        let (now, before) = (self.now, self.rows.len());
        self.rows.retain(|row| forgotten_at(&row.message, budget).is_none_or(|at| now < at));
        for topic in self.dead_letter_topics() {
            let Some(max) = messages_max(budget, topic.as_ref()) else { continue };
            let mut free = self.dead_letters(topic.as_ref());
            free.retain(|letter| letter.free_at <= now);
            free.sort_by_key(|letter| (letter.died, letter.number));
            let over = free.len().saturating_sub(max);
            let over: Vec<_> = free.iter().take(over).map(|letter| letter.uid).collect();
            self.rows.retain(|row| !over.contains(&row.message.uid));
        }
        (before - self.rows.len()) as u64
    }

    /// When upkeep has something to do next.
    pub fn next_upkeep(&self, budget: &Budget) -> Option<Timestamp> {
        let messages = self.rows.iter().map(|row| &row.message);
        let instants = messages.flat_map(|message| [message.next_event(), forgotten_at(message, budget)]);
        let crowded = self.dead_letter_topics().into_iter().filter_map(|topic| {
            let max = messages_max(budget, topic.as_ref())?;
            let mut free: Vec<_> = self.dead_letters(topic.as_ref()).iter().map(|one| one.free_at).collect();
            free.sort();
            free.get(max).copied()
        });
        instants.flatten().chain(crowded).filter(|at| *at != Timestamp::NEVER).min()
    }

    /// The topics of all dead letters; none stands for those without content.
    fn dead_letter_topics(&self) -> Vec<Option<Topic>> {
        let letters = self.rows.iter().filter(|row| is_dead_letter(&row.message));
        let mut topics: Vec<_> = letters.map(|row| topic_of(&row.message).cloned()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    fn dead_letters(&self, topic: Option<&Topic>) -> Vec<Letter> {
        let messages = self.rows.iter().map(|row| &row.message);
        let letters = messages.filter(|message| is_dead_letter(message) && topic_of(message) == topic);
        let letter = |message: &Snapshot| Letter {
            uid: message.uid,
            number: message.number,
            died: message.finished_at,
            free_at: free_at(message),
        };
        letters.map(letter).collect()
    }
}

/// What the number of dead letters in a topic goes by.
struct Letter {
    uid: Uid,
    number: Number,
    died: Option<Timestamp>,
    free_at: Timestamp,
}

fn is_dead_letter(message: &Snapshot) -> bool {
    message.state == State::Dead && message.key.namespace == Namespace::Mailbox
}

fn topic_of(message: &Snapshot) -> Option<&Topic> {
    message.content.as_ref().map(|content| &content.topic)
}

/// How many dead letters of a topic stay that need not.
fn messages_max(budget: &Budget, topic: Option<&Topic>) -> Option<usize> {
    let retention: &DeadLetters = budget.dead_letters.as_ref()?;
    retention.of(topic).messages_max.map(|max| max as usize)
}

/// When a message is forgotten, if nothing happens to it before: by its retention, but never before what was promised.
fn forgotten_at(message: &Snapshot, budget: &Budget) -> Option<Timestamp> {
    let by_retention = match message.state {
        State::Seen if message.is_leased() => None,
        State::Seen => Some(message.accepted_at.after(budget.seen_keep?)),
        State::Dead if is_dead_letter(message) => {
            let retention = budget.dead_letters.as_ref()?.of(topic_of(message));
            Some(message.finished_at?.after(retention.keep?))
        }
        State::Dead => Some(message.finished_at?.after(budget.dead_keep?)),
        State::Done => message.finished_at,
        _ => None,
    };
    Some(by_retention?.max(free_at(message)))
}

/// Until when a message has to be kept, whatever the retention.
fn free_at(message: &Snapshot) -> Timestamp {
    let promised = if message.keyed { message.held_until() } else { Timestamp::EPOCH };
    promised.max(repeat_window_end(message).unwrap_or(Timestamp::EPOCH))
}

/// Until when a finished message has to answer the repeat of its settlement.
pub(super) fn repeat_window_end(message: &Snapshot) -> Option<Timestamp> {
    Some(message.finished_at?.after(REPEAT))
}
