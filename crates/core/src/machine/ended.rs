//! What has ended since upkeep told it last.

use std::collections::BTreeMap;

use crate::key::Namespace;
use crate::message::DeadReason;
use crate::port::Deaths;
use crate::text::Topic;

/// Kinds of deaths that are told apart, at most; beyond them topics are left out.
const DEATHS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Ended {
    pub(super) lapsed: u64,
    pub(super) expired: u64,
    died: BTreeMap<(Namespace, Option<Topic>, DeadReason), u64>,
}

impl Ended {
    pub(super) fn note_death(&mut self, namespace: Namespace, topic: Option<Topic>, reason: DeadReason) {
        let mut kind = (namespace, topic, reason);
        if self.died.len() >= DEATHS_MAX && !self.died.contains_key(&kind) {
            kind.1 = None;
        }
        *self.died.entry(kind).or_default() += 1;
    }

    pub(super) fn deaths(self) -> Vec<Deaths> {
        let deaths = |((namespace, topic, reason), count)| Deaths { namespace, topic, reason, count };
        self.died.into_iter().map(deaths).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{DEATHS_MAX, Ended};
    use crate::key::Namespace;
    use crate::message::DeadReason;
    use crate::text::Topic;

    #[test]
    fn too_many_topics_are_counted_as_one() {
        let mut ended = Ended::default();
        for number in 0..DEATHS_MAX + 5 {
            let topic = Topic::new(number.to_string()).unwrap();
            ended.note_death(Namespace::Mailbox, Some(topic), DeadReason::Expired);
        }
        let deaths = ended.deaths();
        assert_eq!(deaths.len(), DEATHS_MAX + 1);
        assert_eq!((deaths[0].topic.as_ref(), deaths[0].count), (None, 5));
    }
}
