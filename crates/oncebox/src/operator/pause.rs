//! Pausing and resuming topics.

use oncebox_core::{Error, Topic};
use tracing::info;

use super::{Operator, Pause, PausedTopic};

impl Operator {
    /// Pauses a topic, in addition to what is already paused in it, and returns what is paused now. The topic need not
    /// exist. A pause survives restarts, and applies within a second to all processes that share the store.
    ///
    /// [`Pause::Sending`] drains a topic: new messages are rejected with [`crate::ErrorKind::Saturated`] and the bound
    /// `paused`, and stored messages are delivered. [`Pause::Receiving`] keeps messages back: they are accepted and not
    /// delivered, and those that were delivered before can still be settled.
    ///
    /// *Repeat:* harmless.
    pub async fn pause(&self, topic: &str, pause: Pause) -> Result<PausedTopic, Error> {
        let topic = Topic::new(topic)?;
        let why = (&*self.actor, &*self.reason);
        let (paused, changed) = self.shared.pauses.pause(self.namespace, &topic, pause, why).await?;
        if changed {
            self.log_pause("paused", &topic, Some(&paused));
        }
        Ok(paused)
    }

    /// Resumes a topic, or a part of what is paused in it, and returns what is still paused. *Repeat:* harmless.
    pub async fn resume(&self, topic: &str, pause: Pause) -> Result<Option<PausedTopic>, Error> {
        let topic = Topic::new(topic)?;
        let why = (&*self.actor, &*self.reason);
        let (paused, changed) = self.shared.pauses.resume(self.namespace, &topic, pause, why).await?;
        if changed {
            self.log_pause("resumed", &topic, paused.as_ref());
        }
        Ok(paused)
    }

    /// The paused topics, ordered by name: at most 1,000.
    pub async fn paused(&self) -> Result<Vec<PausedTopic>, Error> {
        Ok(self.shared.pauses.current(self.namespace).await?.list().cloned().collect())
    }

    fn log_pause(&self, event: &str, topic: &Topic, now: Option<&PausedTopic>) {
        let Self { shared, namespace, actor, reason, .. } = self;
        let paused = now.map_or("nothing", |now| now.pause.as_str());
        info!(target: "oncebox::audit", event = %format_args!("{namespace}.topic.{event}"), store = %shared.name, %topic, paused, %actor, %reason);
    }
}
