//! Test items identified by numbers (keys, uids, owners), and their outcomes.

use std::time::Duration;

use oncebox_core::{
    Attributes, Batch, Begin, Claim, Content, Delivery, Extension, Fence, Fingerprint, Hold, Key, Lease,
    MessageState, MessageSummary, Namespace, NewMessage, Number, Observation, Owner, Payload, Policy,
    Settlement, Shard, Span, Timestamp, Topic, Trace, Uid, Verdict,
};

pub(crate) fn number(key: &Key) -> u64 {
    key.id.as_str().parse().expect("test keys are numbers")
}

pub(crate) fn key(item: u64) -> Key {
    Key::inbox("test", item.to_string()).unwrap()
}

pub(crate) fn message(item: u64) -> NewMessage {
    NewMessage::new(key(item), Topic::new("t").unwrap(), Payload::default())
}

pub(crate) fn observation(item: u64) -> Observation {
    Observation { key: key(item), hash: None, hold: hold() }
}

pub(crate) fn begin(item: u64) -> Begin {
    Begin { key: key(item), owner: owner(1), lease: span(), hold: hold() }
}

pub(crate) fn settlement(item: u64) -> Settlement {
    Settlement {
        uid: Uid::from_u128(item.into()),
        owner: owner(1),
        fence: Fence::new(1).unwrap(),
        verdict: Verdict::Ack,
    }
}

pub(crate) fn extension(item: u64) -> Extension {
    Extension {
        uid: Uid::from_u128(item.into()),
        owner: owner(1),
        fence: Fence::new(1).unwrap(),
        lease: span(),
    }
}

pub(crate) fn claim(by: u64, messages: u32) -> Claim {
    Claim::new(Namespace::Inbox, owner(by), span(), Batch::new(messages).unwrap())
}

pub(crate) fn owner(number: u64) -> Owner {
    Owner::new(number.into()).unwrap()
}

fn span() -> Span {
    Span::new("lease", Duration::from_secs(30)).unwrap()
}

fn hold() -> Hold {
    Policy::INBOX.hold
}

pub(crate) fn summary(item: u64) -> MessageSummary {
    MessageSummary {
        uid: Uid::from_u128(item.into()),
        accepted_at: Timestamp::EPOCH,
        dedup_until: Timestamp::EPOCH,
        state: MessageState::Processing,
        trace: Trace::default(),
    }
}

pub(crate) fn delivery(claim: &Claim) -> Delivery {
    let (topic, payload) = (Topic::new("t").unwrap(), Payload::default());
    Delivery {
        uid: Uid::from_u128(claim.owner.as_u128()),
        number: Number(1),
        key: key(1),
        fingerprint: Fingerprint::of(&topic, &payload),
        content: Content {
            topic,
            shard: Shard::default(),
            partition: None,
            payload,
            attributes: Attributes::default(),
            due: None,
            expires: None,
            seal: None,
        },
        hash: None,
        trace: Trace::default(),
        accepted_at: Timestamp::EPOCH,
        last_seen_at: Timestamp::EPOCH,
        attempts: 0,
        deliveries: 1,
        last_error: None,
        lease: Lease { owner: claim.owner, fence: Fence::new(1).unwrap(), until: Timestamp::EPOCH },
    }
}
