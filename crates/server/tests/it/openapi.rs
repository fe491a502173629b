//! The document that is checked in.

use std::collections::BTreeSet;
use std::path::Path;

use oncebox_wire::path;

fn checked_in() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

/// What is checked in is what the code says; `ONCEBOX_BLESS=1` writes it anew.
#[test]
fn the_document_is_fresh() {
    let said = oncebox_server::document().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("ONCEBOX_BLESS").is_some() {
        std::fs::write(checked_in(), &said).unwrap();
    }
    let found = std::fs::read_to_string(checked_in()).unwrap_or_default();
    assert!(found == said, "docs/reference/openapi.json is stale: run this test with ONCEBOX_BLESS=1");
}

/// Clients know the same paths as the server.
#[test]
fn every_path_is_described() {
    let described: BTreeSet<_> = oncebox_server::document().paths.paths.into_keys().collect();
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
        path::STATS,
        path::HEALTHZ,
        path::READYZ,
        path::HEALTH_LIVE,
        path::HEALTH_READY,
        path::METRICS,
    ];
    assert_eq!(described, known.map(str::to_owned).into());
}
