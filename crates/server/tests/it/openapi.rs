//! The checked-in OpenAPI document.

use std::path::Path;

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
