//! Checks that every log event of the library and the stores has the field `store`, to distinguish several databases.

use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use crate::workspace::File;

const SOURCES: [&str; 4] = [
    "crates/oncebox/src/",
    "crates/store-embedded/src/",
    "crates/store-memory/src/",
    "crates/store-postgres/src/",
];
const MACROS: [&str; 11] = [
    "error",
    "warn",
    "info",
    "debug",
    "trace",
    "event",
    "error_span",
    "warn_span",
    "info_span",
    "debug_span",
    "trace_span",
];
const FIELD: &str = "store";
/// Log events of a handler: its span has the field.
const IN_A_SPAN: &str = "crates/oncebox/src/worker/attempt.rs";

pub(super) fn check(file: &File) -> Vec<Finding> {
    let watched = SOURCES.iter().any(|folder| file.path.starts_with(folder)) && file.path != IN_A_SPAN;
    if !watched || !file.is_rust() {
        return Vec::new();
    }
    // A file that does not parse is reported with the sizes.
    let tokens = file.text.parse::<TokenStream>().unwrap_or_default();
    let mut lines = Vec::new();
    find_missing(tokens, &mut lines);
    let text = "the log event does not name its store: add the field `store`";
    lines.into_iter().map(|line| Finding::error(file, line, text)).collect()
}

/// Collects the lines of all log calls without the field.
fn find_missing(tokens: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for window in tokens.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(mark), TokenTree::Group(arguments)] = window
            && mark.as_char() == '!'
            && MACROS.iter().any(|known| name == known)
            && !has_field(arguments.stream())
        {
            lines.push(name.span().start().line);
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            find_missing(group.stream(), lines);
        }
    }
}

fn has_field(arguments: TokenStream) -> bool {
    arguments.into_iter().any(|token| matches!(token, TokenTree::Ident(name) if name == FIELD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_event_without_its_store_is_found_anywhere() {
        let text = "fn f() {\n    warn!(%error, \"no\");\n    tokio::select! {\n        () = a => tracing::info!(\"store\"),\n    }\n}";
        assert_eq!(lines("crates/oncebox/src/a.rs", text), [2, 4]);
        assert_eq!(lines("crates/store-embedded/src/a.rs", "fn f() { info_span!(\"x\"); }"), [1]);
    }

    #[test]
    fn events_with_their_store_and_other_calls_pass() {
        for text in [
            "fn f() { warn!(store, \"x\"); info!(%store, \"x\"); debug!(store = %self.name, \"x\"); }",
            "fn f() { info_span!(parent: None, \"x\", store = name()); }",
            "fn f() { println!(\"x\"); error(\"x\"); if !debug { } }",
        ] {
            assert_eq!(lines("crates/store-postgres/src/a.rs", text), [0; 0], "{text}");
        }
        assert_eq!(lines("crates/server/src/a.rs", "fn f() { warn!(\"x\"); }"), [0; 0]);
    }

    /// Holds: IBX-113.
    #[test]
    fn every_log_event_names_its_store() {
        let files = crate::workspace::Workspace::locate().unwrap().files().unwrap();
        let findings: Vec<Finding> = files.iter().flat_map(check).collect();
        assert_eq!(findings, []);
        let logging =
            files.iter().filter(|file| file.path.starts_with(SOURCES[0]) && file.text.contains("warn!("));
        assert!(logging.count() > 5, "the check reads the library");
    }
}
