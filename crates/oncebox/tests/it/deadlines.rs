//! Checks that every async test has a deadline, so that no test can hang.

use std::path::{Path, PathBuf};

/// The sources of these tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_async_test_has_a_deadline() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (attribute, deadline) = (concat!("#[", "tokio::test"), concat!("(crate = ", "\"crate::timed\""));
    let mut tests = 0;
    for path in sources(&folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (start, _) in text.match_indices(attribute) {
            let rest = &text[start + attribute.len()..];
            assert!(rest.starts_with(deadline), "an async test without a deadline in {}", path.display());
            tests += 1;
        }
    }
    assert!(tests > 100, "only {tests} async tests were found");
}
