//! The trace that the auditor reads from standard output, in the format of `oncebox_audit::protocol`.

use std::fmt::Write as _;
use std::io::Write as _;

use oncebox_core::{Delivery, Grant, GrantEnd, Key, MessageState, Settled, Snapshot, VerdictKind};

/// Longer than any campaign. A retry time this long after acceptance counts as `far`.
const FAR_MS: u64 = 100 * 24 * 60 * 60 * 1_000;

/// Writes one line atomically: lines of different threads do not mix.
pub(crate) fn emit(mut line: String) {
    line.push('\n');
    let mut output = std::io::stdout().lock();
    if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
        // The auditor has closed the pipe.
        std::process::exit(1);
    }
}

pub(crate) fn key(key: &Key) -> String {
    format!("{}/{}/{}", key.namespace, key.source.as_str(), key.id.as_str())
}

/// A short hash of a payload (FNV-1a), to compare contents.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    format!("{:x}", bytes.iter().fold(0xCBF2_9CE4_8422_2325, step))
}

pub(crate) fn settled(outcome: Settled) -> &'static str {
    match outcome {
        Settled::Done => "done",
        Settled::Retrying { .. } => "retrying",
        Settled::Released => "released",
        Settled::Dead { .. } => "dead",
        Settled::LeaseLost => "lost",
        _ => "unexpected",
    }
}

pub(crate) fn delivery(delivery: &Delivery) -> String {
    format!(
        "{},{},{},{},{},{}",
        key(&delivery.key),
        delivery.lease.fence.get(),
        delivery.lease.until.as_millis(),
        delivery.attempts,
        delivery.deliveries,
        hash(delivery.content.payload.as_bytes())
    )
}

pub(crate) fn snapshot<P>(snapshot: &Snapshot<P>) -> String {
    let state = match snapshot.state {
        MessageState::Seen => "seen",
        MessageState::Processing => "processing",
        MessageState::Done => "done",
        MessageState::Dead => "dead",
        _ => "unexpected",
    };
    let retry = match snapshot.retry_at {
        None => "-",
        Some(at) if at.as_millis() > snapshot.accepted_at.as_millis() + FAR_MS => "far",
        Some(_) => "near",
    };
    let mut line = format!(
        "message {},{:x},{state},{},{},{retry},",
        key(&snapshot.key),
        snapshot.uid.as_u128(),
        snapshot.attempts,
        snapshot.deliveries
    );
    match &snapshot.grant {
        None => line.push('-'),
        Some(grant) => write_grant(&mut line, grant),
    }
    line
}

fn write_grant(line: &mut String, grant: &Grant) {
    let end = match grant.end {
        None => "current".to_owned(),
        Some(GrantEnd::Lost) => "lost".to_owned(),
        Some(GrantEnd::Settled(kind, outcome)) => format!("{}+{}", verdict(kind), settled(outcome)),
    };
    let lease = &grant.lease;
    let (owner, fence, until) = (lease.owner.as_u128(), lease.fence.get(), lease.until.as_millis());
    write!(line, "{owner:x}:{fence}:{until}:{end}").expect("writing to a string cannot fail");
}

fn verdict(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Ack => "ack",
        VerdictKind::Abandon => "abandon",
        VerdictKind::Fail => "fail",
        VerdictKind::Release => "release",
        _ => "unexpected",
    }
}
