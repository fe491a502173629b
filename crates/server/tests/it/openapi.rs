//! The checked-in OpenAPI document.

use std::collections::BTreeSet;
use std::path::Path;

use oncebox_wire::path;

fn checked_in() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

/// The checked-in document matches the code; `ONCEBOX_BLESS=1` updates it.
#[test]
fn the_document_is_up_to_date() {
    let generated = oncebox_server::document().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("ONCEBOX_BLESS").is_some() {
        std::fs::write(checked_in(), &generated).unwrap();
    }
    let found = std::fs::read_to_string(checked_in()).unwrap_or_default();
    assert!(found == generated, "docs/reference/openapi.json is stale: run this test with ONCEBOX_BLESS=1");
}

/// The ledger's paths and those of the mailbox's design are closed; everything else has a place by its purpose.
/// Holds: RULE-31.
#[test]
fn every_path_has_its_place() {
    const DESIGNED: [&str; 17] = [
        "/v1/inbox/try-begin",
        "/v1/inbox/mark-processed",
        "/v1/inbox/release",
        "/v1/inbox/{key}",
        "/v1/send",
        "/v1/recv",
        "/v1/recv/stream",
        "/v1/ack/{delivery}",
        "/v1/nack/{delivery}",
        "/v1/extend/{delivery}",
        "/v1/settle",
        "/v1/work",
        "/v1/dlq",
        "/v1/dlq/{msg_id}",
        "/v1/dlq/redrive",
        "/v1/dlq/reprocess",
        "/metrics",
    ];
    const PLACES: [&str; 6] = [
        "/v1/queues/mailbox/",
        "/v1/queues/inbox/",
        "/v1/queues/commands/",
        "/v1/admin/",
        "/hooks/",
        "/health",
    ];
    let paths = oncebox_server::document().paths.paths;
    for path in DESIGNED {
        assert!(paths.contains_key(path), "{path} is missing");
    }
    for path in paths.keys() {
        let is_placed = PLACES.iter().any(|place| path.starts_with(place));
        assert!(is_placed || DESIGNED.contains(&&**path) || path == "/readyz", "{path} has no place");
    }
}

/// The document contains exactly the paths that clients use.
#[test]
fn every_path_is_documented() {
    let documented: BTreeSet<_> = oncebox_server::document().paths.paths.into_keys().collect();
    let known = [
        path::SEND,
        path::SEND_BATCH,
        path::RECV,
        path::RECV_STREAM,
        path::ACK,
        path::NACK,
        path::EXTEND,
        path::SETTLE,
        path::WORK,
        path::DLQ,
        path::DLQ_SHOW,
        path::DLQ_REDRIVE,
        path::DLQ_REPROCESS,
        path::TRY_BEGIN,
        path::MARK_PROCESSED,
        path::RELEASE,
        path::INBOX_KEY,
        path::MESSAGES,
        path::MESSAGE,
        path::MESSAGE_BY_KEY,
        path::REDRIVE,
        path::PURGE,
        path::COUNTS,
        path::TOPICS,
        path::PAUSED_TOPICS,
        path::PAUSE_TOPIC,
        path::RESUME_TOPIC,
        path::STATS,
        path::HEALTHZ,
        path::READYZ,
        path::HEALTH_LIVE,
        path::HEALTH_READY,
        path::METRICS,
    ];
    assert_eq!(documented, known.map(str::to_owned).into());
}
