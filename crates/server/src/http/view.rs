//! Conversions from library types to the wire types of the operator API.

use oncebox::mailbox::MsgId;
use oncebox::{
    MessageState, Timestamp,
    health::{Bound, HealthFinding, HealthLevel},
    message::{DeadReason, Namespace, Omitted, Payload},
    operator::{Counts, Grant, Snapshot},
};
use oncebox_core::PayloadHandle;
use oncebox_wire as wire;
use oncebox_wire::Base64;
use oncebox_wire::operator::{LeaseDetails, MessageDetails, ReasonName, StateName};

/// Details of a message, with its payload if requested.
pub(super) fn details_with_payload(snapshot: Snapshot, with_payload: bool) -> MessageDetails {
    let payload = snapshot.content.as_ref().filter(|_| with_payload).map(|content| content.payload.clone());
    let mut message = details(&snapshot.without_payload());
    message.payload_b64 = payload.map(|payload: Payload| Base64(payload.into_bytes()));
    message
}

pub(super) fn details(snapshot: &Snapshot<Omitted>) -> MessageDetails {
    let (content, grant) = (snapshot.content.as_ref(), snapshot.grant.as_ref());
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let dedup_until = snapshot.dedup_until();
    MessageDetails {
        msg_id: MsgId::from(snapshot.uid).to_string(),
        uid: snapshot.uid.to_string(),
        namespace: namespace_to_wire(snapshot.key.namespace),
        source: snapshot.key.source.to_string(),
        id: snapshot.key.id.to_string(),
        topic: content.map(|content| content.topic.to_string()),
        state: state_to_wire(snapshot.state),
        reason: snapshot.dead.map(reason_to_wire),
        attempts: snapshot.attempts,
        attempts_max: snapshot.policy.attempts_max.map(std::num::NonZeroU32::get),
        deliveries: snapshot.deliveries,
        redrives: snapshot.redrives,
        last_error: snapshot.last_error.as_ref().map(|error| error.as_str().to_owned()),
        accepted_at: snapshot.accepted_at.to_string(),
        last_seen_at: snapshot.last_seen_at.to_string(),
        due_at: moment(content.and_then(|content| content.due)),
        retry_at: moment(snapshot.retry_at),
        expires_at: moment(content.and_then(|content| content.expires)),
        finished_at: moment(snapshot.finished_at),
        lease: grant.filter(|grant| grant.end.is_none()).map(lease),
        last_lease: grant.filter(|grant| grant.end.is_some()).map(lease),
        keyed: snapshot.keyed,
        dedup_until: Some(dedup_until)
            .filter(|until| *until != Timestamp::NEVER)
            .map(|until| until.to_string()),
        older: Vec::new(),
        shard: content.map(|content| content.shard.0),
        partition: content.and_then(|content| content.partition.as_ref()).map(ToString::to_string),
        attrs: content.map(|content| attributes(&content.attributes)).unwrap_or_default(),
        corr_id: snapshot.trace.correlation().map(str::to_owned),
        causation_id: snapshot.trace.causation().map(str::to_owned),
        tenant: snapshot.trace.tenant().map(str::to_owned),
        content_hash: snapshot.fingerprint.map(|hash| hash.to_string()),
        payload_bytes: content.map(|content| u64::from(content.payload.bytes())),
        payload_b64: None,
    }
}

fn lease(grant: &Grant) -> LeaseDetails {
    LeaseDetails {
        owner: grant.lease.owner.to_string(),
        worker: grant.worker.as_ref().map(ToString::to_string),
        until: grant.lease.until.to_string(),
    }
}

fn attributes(attributes: &oncebox::message::Attributes) -> std::collections::BTreeMap<String, String> {
    attributes.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

const NAMESPACES: [(wire::operator::NamespaceName, Namespace); 4] = [
    (wire::operator::NamespaceName::Inbox, Namespace::Inbox),
    (wire::operator::NamespaceName::Commands, Namespace::Commands),
    (wire::operator::NamespaceName::Ledger, Namespace::Ledger),
    (wire::operator::NamespaceName::Mailbox, Namespace::Mailbox),
];

pub(super) fn namespace(namespace: Option<wire::operator::NamespaceName>) -> Namespace {
    let requested = namespace.unwrap_or_default();
    NAMESPACES
        .iter()
        .find(|(wire, _)| *wire == requested)
        .map_or(Namespace::Mailbox, |(_, namespace)| *namespace)
}

pub(super) fn namespace_to_wire(namespace: Namespace) -> wire::operator::NamespaceName {
    NAMESPACES.iter().find(|(_, known)| *known == namespace).map(|(wire, _)| *wire).unwrap_or_default()
}

const STATES: [(StateName, MessageState); 4] = [
    (StateName::Seen, MessageState::Seen),
    (StateName::Processing, MessageState::Processing),
    (StateName::Done, MessageState::Done),
    (StateName::Dead, MessageState::Dead),
];

pub(super) fn state(state: StateName) -> MessageState {
    STATES.iter().find(|(wire, _)| *wire == state).map_or(MessageState::Dead, |(_, state)| *state)
}

/// The name of a state in requests and responses.
pub(super) fn state_name(state: MessageState) -> &'static str {
    match state {
        MessageState::Seen => "seen",
        MessageState::Done => "done",
        MessageState::Dead => "dead",
        _ => "processing",
    }
}

fn state_to_wire(state: MessageState) -> StateName {
    STATES.iter().find(|(_, known)| *known == state).map_or(StateName::Processing, |(wire, _)| *wire)
}

const REASONS: [(ReasonName, DeadReason); 7] = [
    (ReasonName::Failed, DeadReason::Failed),
    (ReasonName::Exhausted, DeadReason::Exhausted),
    (ReasonName::Expired, DeadReason::Expired),
    (ReasonName::Cancelled, DeadReason::Cancelled),
    (ReasonName::Integrity, DeadReason::Integrity),
    (ReasonName::Unhandled, DeadReason::Unhandled),
    (ReasonName::Undecodable, DeadReason::Undecodable),
];

pub(super) fn reason(reason: ReasonName) -> DeadReason {
    REASONS.iter().find(|(wire, _)| *wire == reason).map_or(DeadReason::Failed, |(_, reason)| *reason)
}

fn reason_to_wire(reason: DeadReason) -> ReasonName {
    REASONS.iter().find(|(_, known)| *known == reason).map_or(ReasonName::Failed, |(wire, _)| *wire)
}

pub(super) fn counts(counts: Counts) -> wire::operator::CountsResponse {
    let Counts { seen, ready, waiting, leased, done, dead, estimated, .. } = counts;
    wire::operator::CountsResponse { seen, ready, waiting, in_flight: leased, done, dead, estimated }
}

pub(super) fn level(level: HealthLevel) -> &'static str {
    if level == HealthLevel::Unhealthy { "unhealthy" } else { "warning" }
}

pub(super) fn bound(bound: Bound) -> wire::BoundUsage {
    let remedy = bound.remedy().to_owned();
    wire::BoundUsage { name: bound.name.to_owned(), used: bound.used, limit: bound.limit, remedy }
}

pub(super) fn finding(finding: HealthFinding) -> wire::ReadyFinding {
    wire::ReadyFinding {
        level: level(finding.level).to_owned(),
        subject: finding.subject,
        text: finding.text,
    }
}
