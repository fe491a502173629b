//! Serializes the responses of the message path; the only writer of envelopes as JSON. They are written straight into the buffer: values are not copied, and
//! values that never need escaping are not searched for characters to escape.

use std::io::{self, Write};

use oncebox::mailbox::{Damaged, Envelope, Received};
use oncebox_core::ascii::AppendAscii;
use oncebox_wire::Base64;
use oncebox_wire::mailbox::{SendBatchResult, SettleResponse};

use super::super::api_error::ApiError;
use super::convert::{self, Accepted};
use crate::access::Grant;

/// Maximum size of an accepted message in a response.
const ACCEPTED_BYTES: usize = 128;

/// Approximate size of an envelope without its payload, attributes and names.
const ENVELOPE_BYTES: usize = 640;

/// Writes an `oncebox_wire::mailbox::RecvResponse`.
pub(super) fn received(received: &Received, delegating: Option<&Grant>) -> io::Result<Vec<u8>> {
    let mut writer = JsonWriter::for_envelopes(&received.envelopes);
    writer.0.extend_from_slice(b"{\"messages\":");
    writer.list(&received.envelopes, delegating)?;
    writer.damaged(&received.damaged)?;
    writer.paused(received);
    writer.0.push(b'}');
    Ok(writer.0)
}

/// Writes an `oncebox_wire::mailbox::WorkResponse`.
pub(super) fn worked(
    results: &[SettleResponse],
    received: &Received,
    delegating: Option<&Grant>,
    refused: Option<&ApiError>,
) -> io::Result<Vec<u8>> {
    let mut writer = JsonWriter::for_envelopes(&received.envelopes);
    writer.0.extend_from_slice(b"{\"results\":");
    serde_json::to_writer(&mut writer.0, results)?;
    writer.0.extend_from_slice(b",\"messages\":");
    writer.list(&received.envelopes, delegating)?;
    writer.damaged(&received.damaged)?;
    writer.paused(received);
    if let Some(error) = refused {
        writer.0.extend_from_slice(b",\"refused\":");
        serde_json::to_writer(&mut writer.0, &convert::refused_to_wire(error))?;
    }
    writer.0.push(b'}');
    Ok(writer.0)
}

/// Writes envelopes and damaged messages as lines.
pub(super) fn lines(received: &Received, delegating: Option<&Grant>) -> io::Result<Vec<u8>> {
    let mut writer = JsonWriter::for_envelopes(&received.envelopes);
    for envelope in &received.envelopes {
        writer.envelope(envelope, delegating)?;
        writer.0.push(b'\n');
    }
    for damaged in &received.damaged {
        serde_json::to_writer(&mut writer.0, &convert::damaged_to_wire(damaged))?;
        writer.0.push(b'\n');
    }
    Ok(writer.0)
}

/// Writes an `oncebox_wire::mailbox::SendResponse`.
pub(super) fn sent(accepted: Accepted) -> io::Result<Vec<u8>> {
    let mut writer = JsonWriter(Vec::with_capacity(ACCEPTED_BYTES));
    writer.accepted("{", accepted)?;
    Ok(writer.0)
}

/// Writes an `oncebox_wire::mailbox::SendBatchResponse`.
pub(super) fn sent_batch(results: &[Result<Accepted, SendBatchResult>]) -> io::Result<Vec<u8>> {
    let mut writer = JsonWriter(Vec::with_capacity((results.len() + 1) * ACCEPTED_BYTES));
    writer.0.extend_from_slice(b"{\"results\":[");
    for (index, result) in results.iter().enumerate() {
        if index > 0 {
            writer.0.push(b',');
        }
        match result {
            Ok(accepted) => writer.accepted("{\"ok\":true,", *accepted)?,
            Err(item) => serde_json::to_writer(&mut writer.0, item)?,
        }
    }
    writer.0.extend_from_slice(b"]}");
    Ok(writer.0)
}

/// The buffer of a response.
struct JsonWriter(Vec<u8>);

impl JsonWriter {
    fn accepted(&mut self, before: &str, Accepted { receipt, duplicate }: Accepted) -> io::Result<()> {
        self.0.extend_from_slice(before.as_bytes());
        self.plain("\"msg_id\":", &receipt.msg_id);
        write!(self.0, ",\"duplicate\":{duplicate}")?;
        self.plain(",\"dedup_until\":", &receipt.dedup_until);
        self.0.push(b'}');
        Ok(())
    }

    fn for_envelopes(envelopes: &[Envelope]) -> Self {
        let one = |envelope: &Envelope| {
            envelope.payload.len() / 3 * 4 + envelope.attributes.bytes() + ENVELOPE_BYTES
        };
        Self(Vec::with_capacity(ENVELOPE_BYTES + envelopes.iter().map(one).sum::<usize>()))
    }

    fn list(&mut self, envelopes: &[Envelope], delegating: Option<&Grant>) -> io::Result<()> {
        self.0.push(b'[');
        for (index, envelope) in envelopes.iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            self.envelope(envelope, delegating)?;
        }
        self.0.push(b']');
        Ok(())
    }

    /// Writes the damaged messages as a field, if there are any.
    fn damaged(&mut self, damaged: &[Damaged]) -> io::Result<()> {
        if !damaged.is_empty() {
            let damaged: Vec<_> = damaged.iter().map(convert::damaged_to_wire).collect();
            self.0.extend_from_slice(b",\"damaged\":");
            serde_json::to_writer(&mut self.0, &damaged)?;
        }
        Ok(())
    }

    /// Writes that the topic is paused, if it is.
    fn paused(&mut self, received: &Received) {
        if received.paused {
            self.0.extend_from_slice(b",\"paused\":true");
        }
    }

    /// Writes an `oncebox_wire::mailbox::MessageEnvelope`, with a token for its delivery if one is wanted.
    fn envelope(&mut self, envelope: &Envelope, delegating: Option<&Grant>) -> io::Result<()> {
        self.plain("{\"msg_id\":", &envelope.msg_id);
        self.text(",\"topic\":", &envelope.topic)?;
        self.plain(",\"ts\":", &envelope.ts);
        self.text(",\"idem_key\":", &envelope.idem_key)?;
        self.bytes(",\"payload_b64\":", &envelope.payload);
        self.plain(",\"payload_hash\":", &envelope.payload_hash);
        self.0.extend_from_slice(b",\"attrs\":{");
        for (index, (name, value)) in envelope.attributes.iter().enumerate() {
            self.text(if index == 0 { "" } else { "," }, name)?;
            self.text(":", value)?;
        }
        self.0.push(b'}');
        self.text(",\"corr_id\":", &envelope.corr_id)?;
        write!(self.0, ",\"shard\":{},\"attempt\":{}", envelope.shard, envelope.attempt)?;
        self.plain(",\"hash_chain\":", &envelope.hash_chain);
        self.0.extend_from_slice(b",\"sig\":null");
        self.plain(",\"receipt\":", &envelope.receipt);
        self.plain(",\"visible_until\":", &envelope.visible_until);
        if let Some(grant) = delegating {
            let token = grant.for_delivery(envelope.receipt).map_err(io::Error::other)?;
            self.text(",\"capability\":", &token.to_text())?;
        }
        self.0.push(b'}');
        Ok(())
    }

    /// Writes a string of a client, escaped.
    fn text(&mut self, before: &str, text: &str) -> io::Result<()> {
        self.0.extend_from_slice(before.as_bytes());
        Ok(serde_json::to_writer(&mut self.0, text)?)
    }

    /// Writes a value that never contains characters that JSON escapes.
    fn plain(&mut self, before: &str, value: &impl AppendAscii) {
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
    use oncebox::mailbox::{Envelope, MailboxSettings, OutgoingMessage, Receive};
    use oncebox_wire::mailbox::{
        MessageEnvelope, RecvResponse, SendBatchResponse, SendBatchResult, SendResponse, SettleResponse,
        WorkResponse,
    };
    use oncebox_wire::{Base64, ErrorCode};

    use super::super::convert::{self, Accepted};
    use super::{lines, received, sent, sent_batch, worked};

    #[tokio::test]
    async fn an_accepted_message_is_written_like_its_wire_type() {
        let mailbox = Oncebox::open("memory:").await.unwrap().mailbox(MailboxSettings::default()).unwrap();
        let message = || OutgoingMessage::new("topic", "key").bytes("x");
        let mut accepted = Vec::new();
        for duplicate in [false, true] {
            accepted.push(convert::accepted(mailbox.send(message()).await.unwrap()).unwrap());
            assert_eq!(accepted.last().unwrap().duplicate, duplicate);
        }
        let wire = |Accepted { receipt, duplicate }: Accepted| SendResponse {
            msg_id: receipt.msg_id.to_string(),
            duplicate,
            dedup_until: receipt.dedup_until.to_string(),
        };
        let mut items = Vec::new();
        for one in &accepted {
            assert_eq!(sent(*one).unwrap(), serde_json::to_vec(&wire(*one)).unwrap());
            let SendResponse { msg_id, duplicate, dedup_until } = wire(*one);
            let (msg_id, dedup_until) = (Some(msg_id), Some(dedup_until));
            items.push(SendBatchResult {
                ok: true,
                msg_id,
                duplicate,
                dedup_until,
                ..SendBatchResult::default()
            });
        }
        let rejected = SendBatchResult {
            code: Some(ErrorCode::Schema),
            message: Some("\"wrong\"".to_owned()),
            ..SendBatchResult::default()
        };
        items.insert(1, rejected.clone());
        let results = [Ok(accepted[0]), Err(rejected), Ok(accepted[1])];
        let whole = SendBatchResponse { results: items };
        assert_eq!(sent_batch(&results).unwrap(), serde_json::to_vec(&whole).unwrap());
        assert_eq!(sent_batch(&[]).unwrap(), br#"{"results":[]}"#);
    }

    fn wire_envelope(envelope: Envelope) -> MessageEnvelope {
        let attrs =
            envelope.attributes.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        MessageEnvelope {
            msg_id: envelope.msg_id.to_string(),
            topic: envelope.topic,
            ts: envelope.ts.to_string(),
            idem_key: envelope.idem_key,
            payload_b64: Base64(envelope.payload),
            payload_hash: envelope.payload_hash.to_string(),
            attrs,
            corr_id: envelope.corr_id,
            shard: envelope.shard,
            attempt: envelope.attempt,
            hash_chain: envelope.hash_chain.to_string(),
            sig: None,
            receipt: envelope.receipt.to_string(),
            visible_until: envelope.visible_until.to_string(),
            capability: None,
        }
    }

    #[tokio::test]
    async fn an_envelope_is_written_like_its_wire_type() {
        let oncebox = Oncebox::open("memory:").await.unwrap();
        let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
        for (key, bytes) in
            [("k\"1", vec![0, 255, 7]), ("k2", vec![]), ("k3", vec![9; 400]), ("k\u{1}4", vec![1])]
        {
            let message =
                OutgoingMessage::new("größe", key).bytes(bytes).attributes([("b", "2\n"), ("a", "\\1")]);
            mailbox.send(message).await.unwrap();
        }
        mailbox.send(OutgoingMessage::new("größe", "bare").bytes(vec![0; 2])).await.unwrap();
        let received_messages = mailbox.receive(Receive::new("größe").messages(8)).await.unwrap();
        assert_eq!(received_messages.envelopes.len(), 5);
        let wire: Vec<_> = received_messages.envelopes.iter().cloned().map(wire_envelope).collect();
        let text = |value: String| value.into_bytes();
        let one_by_one = wire.iter().map(|one| serde_json::to_string(one).unwrap() + "\n");
        assert_eq!(lines(&received_messages, None).unwrap(), text(one_by_one.collect()));
        let whole = RecvResponse { messages: wire.clone(), ..RecvResponse::default() };
        assert_eq!(received(&received_messages, None).unwrap(), text(serde_json::to_string(&whole).unwrap()));
        let results = vec![SettleResponse { ok: true, ..SettleResponse::default() }];
        let whole = WorkResponse { results: results.clone(), messages: wire, ..WorkResponse::default() };
        assert_eq!(
            worked(&results, &received_messages, None, None).unwrap(),
            text(serde_json::to_string(&whole).unwrap())
        );
        assert_eq!(received(&oncebox::mailbox::Received::default(), None).unwrap(), br#"{"messages":[]}"#);
    }
}
