//! Appends values to a buffer: fixed-size integers in little-endian order, variable-size data after its length.

use oncebox_core::{
    CallerHash, DeadReason, Divergence, Hold, Keep, Key, LastError, Lease, MessageState, Namespace, Policy,
    Settled, Timestamp, Trace, Uid, VerdictKind,
};

/// A growing buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.u8(value.into());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("stored values are at most 64 MiB"));
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn timestamp(&mut self, at: Timestamp) {
        self.u64(at.as_millis());
    }

    pub(crate) fn uid(&mut self, uid: Uid) {
        self.u128(uid.as_u128());
    }

    pub(crate) fn key(&mut self, key: &Key) {
        self.namespace(key.namespace);
        self.text(key.source.as_str());
        self.text(key.id.as_str());
    }

    fn namespace(&mut self, namespace: Namespace) {
        self.u8(match namespace {
            Namespace::Inbox => 1,
            Namespace::Commands => 2,
            Namespace::Ledger => 3,
            Namespace::Mailbox => 4,
            _ => unreachable!("this format knows every namespace"),
        });
    }

    pub(crate) fn hold(&mut self, hold: &Hold) {
        let millis = |duration| Timestamp::EPOCH.after(duration);
        self.timestamp(millis(hold.window));
        match hold.keep {
            Keep::Window => self.u8(0),
            Keep::After(keep) => {
                self.u8(1);
                self.timestamp(millis(keep));
            }
            Keep::UntilFinished => self.u8(2),
        }
    }

    pub(crate) fn policy(&mut self, policy: &Policy) {
        self.u32(policy.attempts_max.map_or(0, Into::into));
        self.hold(&policy.hold);
        self.u8(match policy.divergence {
            Divergence::Replace => 1,
            Divergence::KeepFirst => 2,
            Divergence::Conflict => 3,
            _ => unreachable!("this format knows every policy"),
        });
        self.flag(policy.keep_finished);
    }

    pub(crate) fn hash(&mut self, hash: &CallerHash) {
        self.text(hash.algorithm());
        self.bytes(hash.as_bytes());
    }

    pub(crate) fn trace(&mut self, trace: &Trace) {
        for id in trace.ids() {
            self.text(id);
        }
    }

    pub(crate) fn last_error(&mut self, error: &LastError) {
        self.text(error.as_str());
    }

    pub(crate) fn lease(&mut self, lease: &Lease) {
        self.u128(lease.owner.as_u128());
        self.u64(lease.fence.get());
        self.timestamp(lease.until);
    }

    pub(crate) fn state(&mut self, state: MessageState) {
        self.u8(match state {
            MessageState::Seen => 1,
            MessageState::Processing => 2,
            MessageState::Done => 3,
            MessageState::Dead => 4,
            _ => unreachable!("this format knows every state"),
        });
    }

    pub(crate) fn dead_reason(&mut self, reason: DeadReason) {
        self.u8(match reason {
            DeadReason::Failed => 1,
            DeadReason::Exhausted => 2,
            DeadReason::Expired => 3,
            DeadReason::Cancelled => 4,
            DeadReason::Integrity => 5,
            DeadReason::Unhandled => 6,
            DeadReason::Undecodable => 7,
            _ => unreachable!("this format knows every reason"),
        });
    }

    pub(crate) fn verdict_kind(&mut self, kind: VerdictKind) {
        self.u8(match kind {
            VerdictKind::Ack => 1,
            VerdictKind::Abandon => 2,
            VerdictKind::Fail => 3,
            VerdictKind::Release => 4,
            _ => unreachable!("this format knows every verdict"),
        });
    }

    pub(crate) fn settled(&mut self, settled: Settled) {
        match settled {
            Settled::Done => self.u8(1),
            Settled::Superseded => self.u8(2),
            Settled::Retrying { at } => {
                self.u8(3);
                self.timestamp(at);
            }
            Settled::Released => self.u8(4),
            Settled::Dead { reason } => {
                self.u8(5);
                self.dead_reason(reason);
            }
            _ => unreachable!("this format knows every recorded outcome"),
        }
    }
}
