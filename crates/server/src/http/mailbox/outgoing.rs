//! What leaves for every message: envelopes, and that a message was taken in. It is written straight into the answer: no copy
//! of its parts, and no search for what must be escaped where nothing can be.

use std::io::{self, Write};

use oncebox::mailbox::{Damaged, Envelope, Received};
use oncebox_core::digits::Ascii;
use oncebox_wire::Base64;
use oncebox_wire::mailbox::{SentItem, Settled};

use super::convert::{self, Taken};

/// The bytes that a message that was taken in leaves in an answer, at most.
const TAKEN_BYTES: usize = 128;

/// The bytes that an envelope takes beside its payload and what its sender called it, about.
const ENVELOPE_BYTES: usize = 640;

/// Writes envelopes as `oncebox_wire::mailbox::Received` shapes them.
pub(super) fn received(received: &Received) -> io::Result<Vec<u8>> {
    let mut answer = Answer::for_envelopes(&received.envelopes);
    answer.0.extend_from_slice(b"{\"messages\":");
    answer.list(&received.envelopes)?;
    answer.damaged(&received.damaged)?;
    answer.0.push(b'}');
    Ok(answer.0)
}

/// Writes outcomes and envelopes as `oncebox_wire::mailbox::Worked` shapes them.
pub(super) fn worked(results: &[Settled], received: &Received) -> io::Result<Vec<u8>> {
    let mut answer = Answer::for_envelopes(&received.envelopes);
    answer.0.extend_from_slice(b"{\"results\":");
    serde_json::to_writer(&mut answer.0, results)?;
    answer.0.extend_from_slice(b",\"messages\":");
    answer.list(&received.envelopes)?;
    answer.damaged(&received.damaged)?;
    answer.0.push(b'}');
    Ok(answer.0)
}

/// Writes envelopes and damaged messages as lines.
pub(super) fn lines(received: &Received) -> io::Result<Vec<u8>> {
    let mut answer = Answer::for_envelopes(&received.envelopes);
    for envelope in &received.envelopes {
        answer.envelope(envelope)?;
        answer.0.push(b'\n');
    }
    for damaged in &received.damaged {
        serde_json::to_writer(&mut answer.0, &convert::damage(damaged))?;
        answer.0.push(b'\n');
    }
    Ok(answer.0)
}

/// Writes a message that was taken in as `oncebox_wire::mailbox::Sent` shapes it.
pub(super) fn sent(taken: Taken) -> io::Result<Vec<u8>> {
    let mut answer = Answer(Vec::with_capacity(TAKEN_BYTES));
    answer.taken("{", taken)?;
    Ok(answer.0)
}

/// Writes outcomes as `oncebox_wire::mailbox::SentBatch` shapes them.
pub(super) fn sent_batch(results: &[Result<Taken, SentItem>]) -> io::Result<Vec<u8>> {
    let mut answer = Answer(Vec::with_capacity((results.len() + 1) * TAKEN_BYTES));
    answer.0.extend_from_slice(b"{\"results\":[");
    for (place, result) in results.iter().enumerate() {
        if place > 0 {
            answer.0.push(b',');
        }
        match result {
            Ok(taken) => answer.taken("{\"ok\":true,", *taken)?,
            Err(item) => serde_json::to_writer(&mut answer.0, item)?,
        }
    }
    answer.0.extend_from_slice(b"]}");
    Ok(answer.0)
}

/// What is being written.
struct Answer(Vec<u8>);

impl Answer {
    fn taken(&mut self, before: &str, Taken { ticket, duplicate }: Taken) -> io::Result<()> {
        self.0.extend_from_slice(before.as_bytes());
        self.plain("\"msg_id\":", &ticket.msg_id);
        write!(self.0, ",\"duplicate\":{duplicate}")?;
        self.plain(",\"dedup_until\":", &ticket.dedup_until);
        self.0.push(b'}');
        Ok(())
    }

    fn for_envelopes(envelopes: &[Envelope]) -> Self {
        let one = |envelope: &Envelope| {
            envelope.payload.len() / 3 * 4 + envelope.attributes.bytes() + ENVELOPE_BYTES
        };
        Self(Vec::with_capacity(ENVELOPE_BYTES + envelopes.iter().map(one).sum::<usize>()))
    }

    fn list(&mut self, envelopes: &[Envelope]) -> io::Result<()> {
        self.0.push(b'[');
        for (place, envelope) in envelopes.iter().enumerate() {
            if place > 0 {
                self.0.push(b',');
            }
            self.envelope(envelope)?;
        }
        self.0.push(b']');
        Ok(())
    }

    /// The list of damaged messages as a field of its own, if there are any.
    fn damaged(&mut self, damaged: &[Damaged]) -> io::Result<()> {
        if !damaged.is_empty() {
            let damaged: Vec<_> = damaged.iter().map(convert::damage).collect();
            self.0.extend_from_slice(b",\"damaged\":");
            serde_json::to_writer(&mut self.0, &damaged)?;
        }
        Ok(())
    }

    /// As `oncebox_wire::mailbox::Envelope` shapes it.
    fn envelope(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.plain("{\"msg_id\":", &envelope.msg_id);
        self.text(",\"topic\":", &envelope.topic)?;
        self.plain(",\"ts\":", &envelope.ts);
        self.text(",\"idem_key\":", &envelope.idem_key)?;
        self.bytes(",\"payload_b64\":", &envelope.payload);
        self.plain(",\"payload_hash\":", &envelope.payload_hash);
        self.0.extend_from_slice(b",\"attrs\":{");
        for (place, (name, value)) in envelope.attributes.iter().enumerate() {
            self.text(if place == 0 { "" } else { "," }, name)?;
            self.text(":", value)?;
        }
        self.0.push(b'}');
        self.text(",\"corr_id\":", &envelope.corr_id)?;
        write!(self.0, ",\"shard\":{},\"attempt\":{}", envelope.shard, envelope.attempt)?;
        self.plain(",\"hash_chain\":", &envelope.hash_chain);
        self.0.extend_from_slice(b",\"sig\":null");
        self.plain(",\"receipt\":", &envelope.receipt);
        self.plain(",\"visible_until\":", &envelope.visible_until);
        self.0.push(b'}');
        Ok(())
    }

    /// What somebody else wrote.
    fn text(&mut self, before: &str, text: &str) -> io::Result<()> {
        self.0.extend_from_slice(before.as_bytes());
        Ok(serde_json::to_writer(&mut self.0, text)?)
    }

    /// What we write ourselves: digits, letters, colons, never anything that JSON would have escaped.
    fn plain(&mut self, before: &str, value: &impl Ascii) {
        self.0.extend_from_slice(before.as_bytes());
        self.0.push(b'"');
        value.append_to(&mut self.0);
        self.0.push(b'"');
    }

    fn bytes(&mut self, before: &str, bytes: &[u8]) {
        self.0.extend_from_slice(before.as_bytes());
        self.0.push(b'"');
        Base64::append(&mut self.0, bytes);
        self.0.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use oncebox::Oncebox;
    use oncebox::mailbox::{MailboxSettings, Parcel, Receive};
    use oncebox_wire::Code;
    use oncebox_wire::mailbox::{Received as Described, Sent, SentBatch, SentItem, Settled, Worked};

    use super::super::convert::{self, Taken};
    use super::{lines, received, sent, sent_batch, worked};

    #[tokio::test]
    async fn what_was_taken_in_is_told_as_it_is_described() {
        let mailbox = Oncebox::open("memory:").await.unwrap().mailbox(MailboxSettings::default()).unwrap();
        let parcel = || Parcel::new("topic", "key").bytes("x");
        let mut taken = Vec::new();
        for duplicate in [false, true] {
            taken.push(convert::sent(mailbox.send(parcel()).await.unwrap()).unwrap());
            assert_eq!(taken.last().unwrap().duplicate, duplicate);
        }
        let described = |Taken { ticket, duplicate }: Taken| Sent {
            msg_id: ticket.msg_id.to_string(),
            duplicate,
            dedup_until: ticket.dedup_until.to_string(),
        };
        let mut items = Vec::new();
        for one in &taken {
            assert_eq!(sent(*one).unwrap(), serde_json::to_vec(&described(*one)).unwrap());
            let Sent { msg_id, duplicate, dedup_until } = described(*one);
            let (msg_id, dedup_until) = (Some(msg_id), Some(dedup_until));
            items.push(SentItem { ok: true, msg_id, duplicate, dedup_until, ..SentItem::default() });
        }
        let refused = SentItem {
            code: Some(Code::Schema),
            message: Some("\"wrong\"".to_owned()),
            ..SentItem::default()
        };
        items.insert(1, refused.clone());
        let results = [Ok(taken[0]), Err(refused), Ok(taken[1])];
        let whole = SentBatch { results: items };
        assert_eq!(sent_batch(&results).unwrap(), serde_json::to_vec(&whole).unwrap());
        assert_eq!(sent_batch(&[]).unwrap(), br#"{"results":[]}"#);
    }

    /// Both ways to write an envelope write the same.
    #[tokio::test]
    async fn an_envelope_travels_as_it_is_described() {
        let oncebox = Oncebox::open("memory:").await.unwrap();
        let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
        for (key, bytes) in
            [("k\"1", vec![0, 255, 7]), ("k2", vec![]), ("k3", vec![9; 400]), ("k\u{1}4", vec![1])]
        {
            let parcel = Parcel::new("größe", key).bytes(bytes).attributes([("b", "2\n"), ("a", "\\1")]);
            mailbox.send(parcel).await.unwrap();
        }
        mailbox.send(Parcel::new("größe", "bare").bytes(vec![0; 2])).await.unwrap();
        let brought = mailbox.receive(Receive::new("größe").messages(8)).await.unwrap();
        assert_eq!(brought.envelopes.len(), 5);
        let described: Vec<_> = brought.envelopes.iter().cloned().map(convert::envelope).collect();
        let text = |value: String| value.into_bytes();
        let one_by_one = described.iter().map(|one| serde_json::to_string(one).unwrap() + "\n");
        assert_eq!(lines(&brought).unwrap(), text(one_by_one.collect()));
        let whole = Described { messages: described.clone(), damaged: Vec::new() };
        assert_eq!(received(&brought).unwrap(), text(serde_json::to_string(&whole).unwrap()));
        let results = vec![Settled { ok: true, ..Settled::default() }];
        let whole = Worked { results: results.clone(), messages: described, damaged: Vec::new() };
        assert_eq!(worked(&results, &brought).unwrap(), text(serde_json::to_string(&whole).unwrap()));
        assert_eq!(received(&oncebox::mailbox::Received::default()).unwrap(), br#"{"messages":[]}"#);
    }
}
