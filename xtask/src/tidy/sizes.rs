//! Checks the length of files, tests excluded, and of functions.

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemMod, Meta, Token, TraitItemFn};

use super::Finding;
use crate::workspace::File;

const FILE_LINES_WARN: usize = 300;
const FILE_LINES_MAX: usize = 500;
/// The state machine has a lower limit.
const MACHINE: &str = "crates/core/src/machine";
const MACHINE_FILE_LINES_MAX: usize = 300;
const FUNCTION_LINES_WARN: usize = 70;
const FUNCTION_LINES_MAX: usize = 120;

pub(super) fn check(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let syntax = match syn::parse_file(&file.text) {
        Ok(syntax) => syntax,
        Err(error) => {
            let line = error.span().start().line;
            return vec![Finding::error(file, line, format!("the file does not parse ({error}): fix it"))];
        }
    };
    let mut measure = Measure::default();
    measure.visit_file(&syntax);
    let mut findings: Vec<Finding> =
        measure.functions.iter().filter_map(|function| check_function(file, function)).collect();
    if !is_test_file(&file.path) {
        findings.extend(check_file(file, file.text.lines().count() - measure.test_lines));
    }
    findings
}

fn check_function(file: &File, function: &Function) -> Option<Finding> {
    let Function { name, line, lines } = function;
    let text = format!("`{name}` has {lines} lines, aim for {FUNCTION_LINES_WARN}: split it");
    if *lines > FUNCTION_LINES_MAX {
        Some(Finding::error(file, *line, text))
    } else if *lines > FUNCTION_LINES_WARN {
        Some(Finding::warning(file, *line, text))
    } else {
        None
    }
}

fn check_file(file: &File, lines: usize) -> Option<Finding> {
    let max = if file.path.starts_with(MACHINE) { MACHINE_FILE_LINES_MAX } else { FILE_LINES_MAX };
    if lines > max {
        let text = format!("{lines} lines without tests, {max} at most: split the file by subject");
        Some(Finding::error(file, 1, text))
    } else if lines > FILE_LINES_WARN {
        let text = format!("{lines} lines without tests: does the file have one subject? Split at {max}");
        Some(Finding::warning(file, 1, text))
    } else {
        None
    }
}

fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The length of a function body, including its braces.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

#[derive(Default)]
struct Measure {
    functions: Vec<Function>,
    test_lines: usize,
    /// Nesting depth of test modules; only the outermost is counted.
    depth: usize,
}

impl Measure {
    fn function(&mut self, name: &syn::Ident, body: &Block) {
        let span = body.brace_token.span;
        let (open, close) = (span.open().start().line, span.close().end().line);
        self.functions.push(Function {
            name: name.to_string(),
            line: name.span().start().line,
            lines: close - open + 1,
        });
    }
}

impl Visit<'_> for Measure {
    fn visit_item_fn(&mut self, item: &ItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig.ident, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        let test = item.attrs.iter().find(|attribute| is_cfg_test(attribute));
        if let (Some(attribute), Some((brace, _)), 0) = (test, &item.content, self.depth) {
            let first = attribute.pound_token.spans[0].start().line;
            self.test_lines += brace.span.close().end().line - first + 1;
        }
        self.depth += usize::from(test.is_some());
        visit::visit_item_mod(self, item);
        self.depth -= usize::from(test.is_some());
    }
}

/// Whether it is `#[cfg(test)]` or `#[cfg(all(…, test, …))]`.
fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| requires_test(&meta))
}

fn requires_test(condition: &Meta) -> bool {
    match condition {
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(requires_test)),
        other => other.path().is_ident("test"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Severity;

    fn severities(path: &str, text: &str) -> Vec<Severity> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn test_modules_do_not_count() {
        let long = "// A line.\n".repeat(600);
        for (attribute, expected) in [
            ("#[cfg(test)]", vec![]),
            ("#[cfg(all(unix, test))]", vec![]),
            ("#[cfg(not(test))]", vec![Severity::Error]),
            ("#[cfg(unix)]", vec![Severity::Error]),
        ] {
            let text = format!("fn one() {{}}\n{attribute}\nmod inner {{\n{long}}}\n");
            assert_eq!(severities("crates/a/src/b.rs", &text), expected, "{attribute}");
        }
    }

    #[test]
    fn a_test_module_inside_a_test_module_counts_once() {
        let text = "#[cfg(test)]\nmod a {\n#[cfg(test)]\nmod b {\n}\n}\nfn c() {}\n";
        let mut measure = Measure::default();
        measure.visit_file(&syn::parse_file(text).unwrap());
        assert_eq!(measure.test_lines, 6);
    }

    #[test]
    fn files_have_limits_and_the_machine_a_lower_one() {
        let lines = |count| "// A line.\n".repeat(count);
        assert_eq!(severities("crates/a/src/b.rs", &lines(300)), []);
        assert_eq!(severities("crates/a/src/b.rs", &lines(301)), [Severity::Warning]);
        assert_eq!(severities("crates/a/src/b.rs", &lines(500)), [Severity::Warning]);
        assert_eq!(severities("crates/a/src/b.rs", &lines(501)), [Severity::Error]);
        assert_eq!(severities("crates/core/src/machine/keys.rs", &lines(301)), [Severity::Error]);
        assert_eq!(severities("crates/core/src/machine/keys/tests.rs", &lines(900)), []);
        assert_eq!(severities("crates/a/tests/it/main.rs", &lines(900)), []);
    }

    #[test]
    fn functions_are_measured_with_their_braces() {
        let function = |inner: usize| format!("trait A {{\nfn b(\n) {{\n{}}}\n}}\n", "\n".repeat(inner));
        assert_eq!(severities("crates/a/src/b.rs", &function(68)), []);
        assert_eq!(severities("crates/a/src/b.rs", &function(70)), [Severity::Warning]);
        assert_eq!(severities("crates/a/src/b.rs", &function(120)), [Severity::Error]);
    }

    #[test]
    fn a_file_that_does_not_parse_is_reported() {
        assert_eq!(severities("crates/a/src/b.rs", "fn {"), [Severity::Error]);
    }
}
