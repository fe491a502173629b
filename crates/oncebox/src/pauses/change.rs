//! Pausing and resuming topics.

use oncebox_core::{
    Error, ErrorKind, Invalid, Namespace, RecordId, RecordKind, RecordOp, RecordOutcome, RecordVersion,
    StoreExt, Topic, WriteCondition,
};

use super::paused_topic::StoredPause;
use super::{Pause, PausedTopic, Pauses};

/// Maximum number of times that a change is tried again because another process changed the same topic.
const CONFLICTS_MAX: u32 = 10;

impl Pauses {
    /// Pauses a topic, in addition to what is already paused. Returns what is paused now, and whether it was changed.
    pub(crate) async fn pause(
        &self,
        namespace: Namespace,
        topic: &Topic,
        pause: Pause,
        (actor, reason): (&str, &str),
    ) -> Result<(PausedTopic, bool), Error> {
        let stored = |before: Option<Pause>| {
            let pause = pause.and(before);
            Some(StoredPause { pause, actor: actor.to_owned(), reason: reason.to_owned() })
        };
        let (after, changed) = self.change(namespace, topic, stored).await?;
        let after = after
            .ok_or_else(|| Error::new(ErrorKind::Unavailable, "the pause was not written: try again"))?;
        Ok((after, changed))
    }

    /// Resumes a topic. Returns what is still paused, and whether something was changed.
    pub(crate) async fn resume(
        &self,
        namespace: Namespace,
        topic: &Topic,
        resumed: Pause,
        (actor, reason): (&str, &str),
    ) -> Result<(Option<PausedTopic>, bool), Error> {
        let stored = |before: Option<Pause>| {
            let pause = before?.without(resumed)?;
            Some(StoredPause { pause, actor: actor.to_owned(), reason: reason.to_owned() })
        };
        self.change(namespace, topic, stored).await
    }

    /// Writes what `change` makes of the current pause, unless that is the same.
    async fn change(
        &self,
        namespace: Namespace,
        topic: &Topic,
        change: impl Fn(Option<Pause>) -> Option<StoredPause>,
    ) -> Result<(Option<PausedTopic>, bool), Error> {
        let Some(pauses) = self.of(namespace) else {
            return Err(Invalid::new("namespace", "has no topics that can be paused").into());
        };
        let id = RecordId::new(topic.as_str())?;
        for _ in 0..CONFLICTS_MAX {
            let RecordOutcome::Found(found) =
                self.store.record(RecordOp::Get { kind: pauses.kind, id: id.clone() }).await?
            else {
                unreachable!("a get is answered with a record")
            };
            let before = found.as_ref().map(PausedTopic::try_from).transpose()?;
            let after = change(before.as_ref().map(|before| before.pause));
            if after.as_ref().map(|after| after.pause) == before.as_ref().map(|before| before.pause) {
                // Another process may have made the change, or an earlier call whose answer was lost. The caller relies on
                // it from now on, and the copy may be older.
                drop(self.read(pauses).await);
                return Ok((before, false));
            }
            let version = found.map(|found| found.version);
            if self.write(pauses.kind, &id, version, after.as_ref()).await? {
                // What was written counts, even if it cannot be read, or was changed again in the meantime.
                let topics = self.read(pauses).await.unwrap_or_default();
                let written = after.map(|after| {
                    let read = topics.get(topic).filter(|read| read.pause == after.pause);
                    read.cloned().unwrap_or_else(|| after.into_topic(topic, self.clock.now()))
                });
                return Ok((written, true));
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "other processes keep changing this pause: try again"))
    }

    /// Writes or deletes a pause; false if it no longer has this version.
    async fn write(
        &self,
        kind: RecordKind,
        id: &RecordId,
        version: Option<RecordVersion>,
        after: Option<&StoredPause>,
    ) -> Result<bool, Error> {
        let op = match after {
            Some(after) => RecordOp::Put {
                kind,
                id: id.clone(),
                value: after.value()?,
                condition: version.map_or(WriteCondition::Absent, WriteCondition::Version),
                keep: None,
            },
            None => RecordOp::Delete { kind, id: id.clone(), version },
        };
        match self.store.record(op).await? {
            RecordOutcome::Written(_) | RecordOutcome::Deleted(true) => Ok(true),
            RecordOutcome::Full(bound) => Err(Error::new(
                ErrorKind::Saturated,
                format!(
                    "too many topics are paused ({} of {} {}): resume some of them first",
                    bound.used, bound.limit, bound.name
                ),
            )),
            _ => Ok(false),
        }
    }
}
