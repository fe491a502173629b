//! Checks pauses: a pause applies to every call that is made a second after the store wrote it, by any node.

use super::{Auditor, CheckResult, ensure};
use crate::event::SimContent;

/// A call that is made this long after a pause was written is subject to it.
const SEEN_WITHIN_MS: u64 = 1_000;

/// Since when a topic is paused.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TopicPause {
    sending_since: Option<u64>,
    receiving_since: Option<u64>,
}

impl Auditor {
    /// The store changed what is paused in a topic.
    pub(super) fn topic_paused(&mut self, topic: &str, sending: bool, receiving: bool) {
        let now = self.now.at;
        let before = self.pauses.entry(topic.to_owned()).or_default();
        let since = |paused: bool, since: Option<u64>| paused.then(|| since.unwrap_or(now));
        *before = TopicPause {
            sending_since: since(sending, before.sending_since),
            receiving_since: since(receiving, before.receiving_since),
        };
    }

    /// The store accepted or recognized a message, by a call that was made at this time.
    pub(super) fn check_accepting(&self, key: &str, content: &SimContent, asked_at: u64) -> CheckResult {
        let since = self.pauses.get(&content.topic).and_then(|pause| pause.sending_since);
        ensure(!applies(since, asked_at), || {
            format!("{key} was accepted although sending to {} is paused", content.topic)
        })
    }

    /// The store granted a lease, to a call that was made at this time.
    pub(super) fn check_delivering(&self, key: &str, content: &SimContent, asked_at: u64) -> CheckResult {
        let since = self.pauses.get(&content.topic).and_then(|pause| pause.receiving_since);
        ensure(!applies(since, asked_at), || {
            format!("{key} was granted although receiving from {} is paused", content.topic)
        })
    }
}

/// Whether a pause applies to a call that was made at this time.
fn applies(since: Option<u64>, asked_at: u64) -> bool {
    since.is_some_and(|since| since + SEEN_WITHIN_MS <= asked_at)
}
