//! Encoding of new messages and snapshots.

use std::num::NonZeroU32;

use bytes::Bytes;
use oncebox_core::{
    Attributes, Content, Fingerprint, Grant, GrantEnd, NewMessage, Partition, Payload, RequestId, Seal,
    Shard, Snapshot, Topic, WorkerName,
};

use super::{Damaged, Reader, Writer};

impl Writer {
    pub(crate) fn new_message(&mut self, message: &NewMessage) {
        self.option(message.uid.as_ref(), |writer, uid| writer.uid(*uid));
        self.key(&message.key);
        self.content(&message.content);
        self.0.extend_from_slice(message.fingerprint.as_bytes());
        self.option(message.hash.as_ref(), Self::hash);
        self.trace(&message.trace);
        self.policy(&message.policy);
    }

    fn content(&mut self, content: &Content) {
        self.text(content.topic.as_str());
        self.u16(content.shard.0);
        self.option(content.partition.as_ref(), |writer, partition| writer.text(partition.as_str()));
        self.bytes(content.payload.as_bytes());
        self.u8(u8::try_from(content.attributes.iter().count()).expect("at most 64 attributes"));
        for (name, value) in content.attributes.iter() {
            self.text(name);
            self.text(value);
        }
        for moment in [&content.due, &content.expires] {
            self.option(moment.as_ref(), |writer, at| writer.timestamp(*at));
        }
        self.option(content.seal.as_ref(), |writer, seal| {
            writer.timestamp(seal.at);
            writer.0.extend_from_slice(seal.chain.as_bytes());
        });
    }

    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        self.u64(snapshot.number.0);
        self.key(&snapshot.key);
        self.flag(snapshot.keyed);
        self.state(snapshot.state);
        self.option(snapshot.dead.as_ref(), |writer, reason| writer.dead_reason(*reason));
        self.option(snapshot.content.as_ref(), Self::content);
        self.option(snapshot.fingerprint.as_ref(), |writer, fingerprint| {
            writer.0.extend_from_slice(fingerprint.as_bytes());
        });
        self.option(snapshot.hash.as_ref(), Self::hash);
        self.trace(&snapshot.trace);
        self.policy(&snapshot.policy);
        self.timestamp(snapshot.accepted_at);
        self.timestamp(snapshot.last_seen_at);
        for moment in [&snapshot.finished_at, &snapshot.retry_at] {
            self.option(moment.as_ref(), |writer, at| writer.timestamp(*at));
        }
        self.u32(snapshot.attempts);
        self.u32(snapshot.deliveries);
        self.u32(snapshot.redrives);
        self.option(snapshot.last_error.as_ref(), Self::last_error);
        self.option(snapshot.grant.as_ref(), Self::grant);
    }

    pub(crate) fn worker(&mut self, worker: &WorkerName) {
        self.text(worker.as_str());
    }

    fn grant(&mut self, grant: &Grant) {
        self.lease(&grant.lease);
        self.timestamp(grant.extendable_until);
        self.option(grant.request.as_ref(), |writer, request| writer.u128(request.as_u128()));
        self.u32(grant.attempts_max.map_or(0, NonZeroU32::get));
        self.option(grant.worker.as_ref(), Self::worker);
        self.option(grant.partition.as_ref(), |writer, partition| writer.text(partition.as_str()));
        self.flag(grant.superseded);
        self.option(grant.end.as_ref(), |writer, end| match end {
            GrantEnd::Settled(kind, outcome) => {
                writer.flag(true);
                writer.verdict_kind(*kind);
                writer.settled(*outcome);
            }
            GrantEnd::Lost => writer.flag(false),
        });
    }
}

impl Reader<'_> {
    pub(crate) fn new_message(&mut self) -> Result<NewMessage, Damaged> {
        Ok(NewMessage {
            uid: self.option(Self::uid)?,
            key: self.key()?,
            content: self.content()?,
            fingerprint: self.fingerprint()?,
            hash: self.option(Self::hash)?,
            trace: self.trace()?,
            policy: self.policy()?,
            lane_max: None,
        })
    }

    fn content(&mut self) -> Result<Content, Damaged> {
        let topic = Topic::new(self.text()?)?;
        let shard = Shard(self.u16()?);
        let partition = self.option(Self::partition)?;
        let bytes = self.bytes()?;
        // Copied: a slice would keep the whole group in memory for one payload.
        let payload = Payload::new(Bytes::copy_from_slice(bytes))?;
        let mut pairs = Vec::new();
        for _ in 0..self.u8()? {
            pairs.push((self.text()?, self.text()?));
        }
        let attributes = Attributes::new(pairs)?;
        let [due, expires] = [self.option(Self::timestamp)?, self.option(Self::timestamp)?];
        let seal =
            self.option(|reader| Ok(Seal { at: reader.timestamp()?, chain: reader.fingerprint()? }))?;
        Ok(Content { topic, shard, partition, payload, attributes, due, expires, seal })
    }

    fn partition(&mut self) -> Result<Partition, Damaged> {
        Ok(Partition::new(self.text()?)?)
    }

    fn fingerprint(&mut self) -> Result<Fingerprint, Damaged> {
        self.bytes_32().map(Fingerprint::from_bytes)
    }

    /// Reads everything except the uid, which precedes it.
    pub(crate) fn snapshot(&mut self, uid: oncebox_core::Uid) -> Result<Snapshot, Damaged> {
        Ok(Snapshot {
            uid,
            number: self.number()?,
            key: self.key()?,
            keyed: self.flag()?,
            state: self.state()?,
            dead: self.option(Self::dead_reason)?,
            content: self.option(Self::content)?,
            fingerprint: self.option(Self::fingerprint)?,
            hash: self.option(Self::hash)?,
            trace: self.trace()?,
            policy: self.policy()?,
            accepted_at: self.timestamp()?,
            last_seen_at: self.timestamp()?,
            finished_at: self.option(Self::timestamp)?,
            retry_at: self.option(Self::timestamp)?,
            attempts: self.u32()?,
            deliveries: self.u32()?,
            redrives: self.u32()?,
            last_error: self.option(Self::last_error)?,
            grant: self.option(Self::grant)?,
        })
    }

    pub(crate) fn worker(&mut self) -> Result<WorkerName, Damaged> {
        Ok(WorkerName::new(self.text()?)?)
    }

    fn grant(&mut self) -> Result<Grant, Damaged> {
        Ok(Grant {
            lease: self.lease()?,
            extendable_until: self.timestamp()?,
            request: self.option(|reader| reader.u128().map(RequestId::from_u128))?,
            attempts_max: self.u32().map(NonZeroU32::new)?,
            worker: self.option(Self::worker)?,
            partition: self.option(Self::partition)?,
            superseded: self.flag()?,
            end: self.option(|reader| {
                Ok(if reader.flag()? {
                    GrantEnd::Settled(reader.verdict_kind()?, reader.settled()?)
                } else {
                    GrantEnd::Lost
                })
            })?,
        })
    }
}
