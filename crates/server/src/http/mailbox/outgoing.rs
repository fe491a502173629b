//! Envelopes on their way out, written without a copy of their parts: most of an answer is made of them.

use std::fmt::Display;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use oncebox::mailbox::Envelope;
use oncebox_wire::mailbox::Settled;
use serde::ser::{SerializeStruct, Serializer};
use serde::{Serialize, ser};

/// The bytes that an envelope takes beside its payload and what its sender called it, about.
const ENVELOPE_BYTES: usize = 640;

/// An envelope as `oncebox_wire::mailbox::Envelope` shapes it.
pub(super) struct Outgoing<'a>(&'a Envelope);

/// As `oncebox_wire::mailbox::Received`.
#[derive(Serialize)]
pub(super) struct Received<'a> {
    messages: Vec<Outgoing<'a>>,
}

/// As `oncebox_wire::mailbox::Worked`.
#[derive(Serialize)]
pub(super) struct Worked<'a> {
    results: &'a [Settled],
    messages: Vec<Outgoing<'a>>,
}

impl<'a> Received<'a> {
    pub(super) fn new(envelopes: &'a [Envelope]) -> Self {
        Self { messages: envelopes.iter().map(Outgoing).collect() }
    }
}

impl<'a> Worked<'a> {
    pub(super) fn new(results: &'a [Settled], envelopes: &'a [Envelope]) -> Self {
        Self { results, messages: envelopes.iter().map(Outgoing).collect() }
    }
}

/// Writes envelopes as lines.
pub(super) fn lines(envelopes: &[Envelope]) -> Result<Vec<u8>, serde_json::Error> {
    let mut lines = Vec::with_capacity(bytes(envelopes));
    for envelope in envelopes {
        serde_json::to_writer(&mut lines, &Outgoing(envelope))?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// How many bytes envelopes take, about.
pub(super) fn bytes(envelopes: &[Envelope]) -> usize {
    let one =
        |envelope: &Envelope| envelope.payload.len() / 3 * 4 + envelope.attributes.bytes() + ENVELOPE_BYTES;
    envelopes.iter().map(one).sum()
}

/// Written as text.
struct Shown<T>(T);

impl<T: Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Names and values.
struct Pairs<'a>(&'a oncebox::Attributes);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter())
    }
}

impl ser::Serialize for Outgoing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(envelope) = self;
        let mut fields = serializer.serialize_struct("Envelope", 14)?;
        fields.serialize_field("msg_id", &Shown(envelope.msg_id))?;
        fields.serialize_field("topic", &envelope.topic)?;
        fields.serialize_field("ts", &Shown(envelope.ts))?;
        fields.serialize_field("idem_key", &envelope.idem_key)?;
        fields.serialize_field("payload_b64", &Shown(Base64Display::new(&envelope.payload, &STANDARD)))?;
        fields.serialize_field("payload_hash", &Shown(envelope.payload_hash))?;
        fields.serialize_field("attrs", &Pairs(&envelope.attributes))?;
        fields.serialize_field("corr_id", &envelope.corr_id)?;
        fields.serialize_field("shard", &envelope.shard)?;
        fields.serialize_field("attempt", &envelope.attempt)?;
        fields.serialize_field("hash_chain", &Shown(envelope.hash_chain))?;
        fields.serialize_field("sig", &None::<()>)?;
        fields.serialize_field("receipt", &Shown(envelope.receipt))?;
        fields.serialize_field("visible_until", &Shown(envelope.visible_until))?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use oncebox::Oncebox;
    use oncebox::mailbox::{MailboxSettings, Parcel, Receive};

    use super::super::convert;
    use super::{Outgoing, lines};

    /// Both ways to write an envelope write the same.
    #[tokio::test]
    async fn an_envelope_travels_as_it_is_described() {
        let oncebox = Oncebox::open("memory:").await.unwrap();
        let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
        let parcel =
            Parcel::new("größe", "k\"1").bytes(vec![0, 255, 7]).attributes([("b", "2\n"), ("a", "1")]);
        mailbox.send(parcel).await.unwrap();
        let received = mailbox.receive(Receive::new("größe")).await.unwrap();
        let described = serde_json::to_string(&convert::envelope(received[0].clone())).unwrap();
        assert_eq!(serde_json::to_string(&Outgoing(&received[0])).unwrap(), described);
        assert_eq!(lines(&received).unwrap(), format!("{described}\n").into_bytes());
    }
}
