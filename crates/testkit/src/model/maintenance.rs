//! Maintenance: what is forgotten, and when maintenance is due.

use std::time::Duration;

use oncebox_core::{Budget, DeadLetters, MessageState, Namespace, Number, Snapshot, Timestamp, Topic, Uid};

use super::{Facts, Model};

/// How long a finished message answers repeats of its settlement.
const REPEAT: Duration = Duration::from_mins(10);

impl Model {
    /// Forgets everything that the retentions of the budget allow, whatever its size; returns how many.
    pub fn maintain(&mut self, budget: &Budget) -> u64 {
        self.catch_up();
        let (now, before) = (self.now, self.rows.len());
        self.rows.retain(|row| forgotten_at(&row.message, budget).is_none_or(|at| now < at));
        for topic in self.dead_letter_topics() {
            let Some(max) = messages_max(budget, topic.as_ref()) else { continue };
            let mut discardable = self.dead_letters(topic.as_ref());
            discardable.retain(|dead_letter| dead_letter.discardable_at <= now);
            discardable.sort_by_key(|dead_letter| (dead_letter.died, dead_letter.number));
            let over = discardable.len().saturating_sub(max);
            let over: Vec<_> = discardable.iter().take(over).map(|dead_letter| dead_letter.uid).collect();
            self.rows.retain(|row| !over.contains(&row.message.uid));
        }
        (before - self.rows.len()) as u64
    }

    /// When maintenance is due next.
    pub fn next_maintenance(&self, budget: &Budget) -> Option<Timestamp> {
        let messages = self.rows.iter().map(|row| &row.message);
        let instants = messages.flat_map(|message| [message.next_event(), forgotten_at(message, budget)]);
        let by_count = self.dead_letter_topics().into_iter().filter_map(|topic| {
            let max = messages_max(budget, topic.as_ref())?;
            let mut discardable: Vec<_> =
                self.dead_letters(topic.as_ref()).iter().map(|one| one.discardable_at).collect();
            discardable.sort();
            discardable.get(max).copied()
        });
        instants.flatten().chain(by_count).filter(|at| *at != Timestamp::NEVER).min()
    }

    /// The topics of all dead letters; `None` stands for those without content.
    fn dead_letter_topics(&self) -> Vec<Option<Topic>> {
        let dead_letters = self.rows.iter().filter(|row| is_dead_letter(&row.message));
        let mut topics: Vec<_> = dead_letters.map(|row| topic_of(&row.message).cloned()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    fn dead_letters(&self, topic: Option<&Topic>) -> Vec<DeadLetter> {
        let messages = self.rows.iter().map(|row| &row.message);
        let dead_letters = messages.filter(|message| is_dead_letter(message) && topic_of(message) == topic);
        let dead_letter = |message: &Snapshot| DeadLetter {
            uid: message.uid,
            number: message.number,
            died: message.finished_at,
            discardable_at: discardable_at(message),
        };
        dead_letters.map(dead_letter).collect()
    }
}

/// The properties of a dead letter that its retention depends on.
struct DeadLetter {
    uid: Uid,
    number: Number,
    died: Option<Timestamp>,
    discardable_at: Timestamp,
}

fn is_dead_letter(message: &Snapshot) -> bool {
    message.state == MessageState::Dead && message.key.namespace == Namespace::Mailbox
}

fn topic_of(message: &Snapshot) -> Option<&Topic> {
    message.content.as_ref().map(|content| &content.topic)
}

/// How many dead letters of a topic stay although they are not required.
fn messages_max(budget: &Budget, topic: Option<&Topic>) -> Option<usize> {
    let retention: &DeadLetters = budget.dead_letters.as_ref()?;
    retention.of(topic).messages_max.map(|max| max as usize)
}

/// When a message is forgotten if nothing changes it before: by its retention, but never while it is required.
fn forgotten_at(message: &Snapshot, budget: &Budget) -> Option<Timestamp> {
    let by_retention = match message.state {
        MessageState::Seen if message.is_leased() => None,
        MessageState::Seen => Some(message.accepted_at.after(budget.seen_keep?)),
        MessageState::Dead if is_dead_letter(message) => {
            let retention = budget.dead_letters.as_ref()?.of(topic_of(message));
            Some(message.finished_at?.after(retention.keep?))
        }
        MessageState::Dead => Some(message.finished_at?.after(budget.dead_keep?)),
        MessageState::Done => message.finished_at,
        _ => None,
    };
    Some(by_retention?.max(discardable_at(message)))
}

/// Until when a message is required, whatever the retention.
fn discardable_at(message: &Snapshot) -> Timestamp {
    let promised = if message.keyed { message.held_until() } else { Timestamp::EPOCH };
    promised.max(repeat_window_end(message).unwrap_or(Timestamp::EPOCH))
}

/// Until when a finished message has to answer repeats of its settlement.
pub(super) fn repeat_window_end(message: &Snapshot) -> Option<Timestamp> {
    Some(message.finished_at?.after(REPEAT))
}
