//! Checks messages: each accepted message exists once in the end, and has ended for a valid reason.

use super::{Auditor, CheckResult, Message, ensure};
use crate::event::{EventKind, SimContent};

impl Auditor {
    /// The store accepted a message.
    pub(super) fn stored(
        &mut self,
        key: &str,
        uid: &str,
        outcome: &str,
        content: &SimContent,
    ) -> CheckResult {
        let number = self.messages.len() as u64;
        let known = self.messages.get_mut(key);
        ensure(known.is_some() == (outcome != "new"), || {
            format!("{key} was stored as {outcome}, which is impossible")
        })?;
        let Some(message) = known else {
            let message = Message {
                uid: uid.to_owned(),
                number,
                content: content.clone(),
                may_expire: content.expires.is_some(),
                ..Message::default()
            };
            self.messages.insert(key.to_owned(), message);
            self.uids.insert(uid.to_owned(), key.to_owned());
            return Ok(());
        };
        ensure(message.uid == uid, || format!("{key} had the uid {} and now has {uid}", message.uid))?;
        if outcome == "replaced"
            && let Some(lease) = message.fence.and_then(|fence| self.leases.get_mut(&fence))
        {
            lease.superseded = true;
        }
        if message.end.is_none() {
            message.content = content.clone();
            message.repeated = true;
            message.may_expire |= content.expires.is_some();
        }
        Ok(())
    }

    /// A sender received an answer.
    pub(super) fn answered(&mut self, key: &str, outcome: &str, uid: &str) -> CheckResult {
        let message = self.messages.get_mut(key);
        let message = message.ok_or_else(|| format!("{key} was answered but never stored"))?;
        ensure(message.uid == uid, || {
            format!("{key} was answered with the uid {uid}, but has {}", message.uid)
        })?;
        if outcome == "accepted" {
            message.answered += 1;
            ensure(message.answered == 1, || format!("{key} was accepted twice"))?;
        }
        Ok(())
    }

    /// The state of a message at the end of the run.
    pub(super) fn final_state(&mut self, kind: &EventKind) -> CheckResult {
        let EventKind::FinalState { key, uid, state, attempts, deliveries } = kind else { return Ok(()) };
        self.lapse_latest(key)?;
        let limit = self.limit(self.messages.get(key).and_then(|message| message.fence));
        let Some(message) = self.messages.get_mut(key) else {
            return ensure(uid.is_empty(), || format!("{key} exists, but was never stored"));
        };
        ensure(!uid.is_empty(), || format!("{key} was stored, but is lost"))?;
        ensure(message.uid == *uid, || format!("{key} had the uid {} and now has {uid}", message.uid))?;
        message.reported = true;
        let counted = (message.attempts, message.deliveries);
        ensure(counted == (*attempts, *deliveries), || {
            format!(
                "{key} has {attempts} attempts and {deliveries} deliveries, but {counted:?} were expected"
            )
        })?;
        ensure(attempts <= deliveries, || format!("{key} has more attempts than deliveries"))?;
        let expired = message.may_expire;
        let exhausted = message.attempts >= limit;
        let right = match (*state, message.end) {
            ("seen" | "processing", _) => return Err(format!("{key} has not ended")),
            ("expired", None) => expired,
            ("exhausted", None) => exhausted,
            (state, end) => end == Some(state),
        };
        let end = message.end;
        ensure(right, || format!("{key} ended as {state}, expected {end:?}"))?;
        match *state {
            "done" => self.tally.done += 1,
            _ => self.tally.dead += 1,
        }
        Ok(())
    }

    pub(super) fn close_messages(&mut self) -> CheckResult {
        self.tally.messages = self.messages.len() as u64;
        let missing = self.messages.iter().find(|(_, message)| !message.reported);
        missing.map_or(Ok(()), |(key, _)| Err(format!("{key} was stored, but its final state is missing")))
    }
}
