//! Timer events since the last maintenance report.

use std::collections::BTreeMap;

use crate::key::Namespace;
use crate::message::DeadReason;
use crate::port::Deaths;
use crate::text::Topic;

/// The maximum number of groups of deaths; beyond it, topics are not counted separately.
const DEATH_GROUPS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct TimerEvents {
    pub(super) lapsed: u64,
    pub(super) expired: u64,
    died: BTreeMap<(Namespace, Option<Topic>, DeadReason), u64>,
}

impl TimerEvents {
    pub(super) fn note_death(&mut self, namespace: Namespace, topic: Option<Topic>, reason: DeadReason) {
        let mut group = (namespace, topic, reason);
        if self.died.len() >= DEATH_GROUPS_MAX && !self.died.contains_key(&group) {
            group.1 = None;
        }
        *self.died.entry(group).or_default() += 1;
    }

    pub(super) fn deaths(self) -> Vec<Deaths> {
        let deaths = |((namespace, topic, reason), count)| Deaths { namespace, topic, reason, count };
        self.died.into_iter().map(deaths).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{DEATH_GROUPS_MAX, TimerEvents};
    use crate::key::Namespace;
    use crate::message::DeadReason;
    use crate::text::Topic;

    #[test]
    fn topics_beyond_the_limit_are_counted_together() {
        let mut events = TimerEvents::default();
        for number in 0..DEATH_GROUPS_MAX + 5 {
            let topic = Topic::new(number.to_string()).unwrap();
            events.note_death(Namespace::Mailbox, Some(topic), DeadReason::Expired);
        }
        let deaths = events.deaths();
        assert_eq!(deaths.len(), DEATH_GROUPS_MAX + 1);
        assert_eq!((deaths[0].topic.as_ref(), deaths[0].count), (None, 5));
    }
}
