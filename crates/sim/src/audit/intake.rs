//! What was taken in must be there in the end, once, and have ended for a reason.

use super::{Auditor, Checked, Message, expect};
use crate::event::{Content, What};

impl Auditor {
    /// The store took a message in.
    pub(super) fn stored(&mut self, key: &str, uid: &str, outcome: &str, content: &Content) -> Checked {
        let number = self.messages.len() as u64;
        let known = self.messages.get_mut(key);
        expect(known.is_some() == (outcome != "new"), || format!("{key} is {outcome}, which it cannot be"))?;
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
        expect(message.uid == uid, || format!("{key} was {} and is {uid}", message.uid))?;
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

    /// A sender was told.
    pub(super) fn answered(&mut self, key: &str, outcome: &str, uid: &str) -> Checked {
        let message = self.messages.get_mut(key);
        let message = message.ok_or_else(|| format!("{key} was answered and is not there"))?;
        expect(message.uid == uid, || format!("{key} was answered as {uid} and is {}", message.uid))?;
        if outcome == "accepted" {
            message.answered += 1;
            expect(message.answered == 1, || format!("{key} was accepted twice"))?;
        }
        Ok(())
    }

    /// How a message stands in the end.
    pub(super) fn stands(&mut self, what: &What) -> Checked {
        let What::Stands { key, uid, state, attempts, deliveries } = what else { return Ok(()) };
        self.lapse_newest(key)?;
        let limit = self.limit(self.messages.get(key).and_then(|message| message.fence));
        let Some(message) = self.messages.get_mut(key) else {
            return expect(uid.is_empty(), || format!("{key} is there, and nobody has stored it"));
        };
        expect(!uid.is_empty(), || format!("{key} was stored and is lost"))?;
        expect(message.uid == *uid, || format!("{key} was {} and is {uid}", message.uid))?;
        message.stands = true;
        let counted = (message.attempts, message.deliveries);
        expect(counted == (*attempts, *deliveries), || {
            format!("{key} has {attempts} attempts and {deliveries} deliveries, and {counted:?} were seen")
        })?;
        expect(attempts <= deliveries, || format!("{key} has more attempts than deliveries"))?;
        let expired = message.may_expire;
        let exhausted = message.attempts >= limit;
        let right = match (*state, message.end) {
            ("seen" | "processing", _) => return Err(format!("{key} has not ended")),
            ("expired", None) => expired,
            ("exhausted", None) => exhausted,
            (state, end) => end == Some(state),
        };
        let end = message.end;
        expect(right, || format!("{key} ended as {state}, and {end:?} was seen"))?;
        match *state {
            "done" => self.tally.done += 1,
            _ => self.tally.dead += 1,
        }
        Ok(())
    }

    pub(super) fn close_messages(&mut self) -> Checked {
        self.tally.messages = self.messages.len() as u64;
        let unread = self.messages.iter().find(|(_, message)| !message.stands);
        unread.map_or(Ok(()), |(key, _)| Err(format!("{key} was stored, and nobody looked how it stands")))
    }
}
