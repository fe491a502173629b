//! Finds the tests that hold requirements: functions whose doc comment lists ids after `Holds:`.

use std::collections::BTreeSet;

use proc_macro2::TokenTree;
use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, Ident, ImplItemFn, ItemFn, Lit, Macro, Meta, Token, TraitItemFn, Visibility, token,
};

use super::cases;
use super::ids::{self, Id};
use crate::workspace::File;

const MARKER: &str = "Holds:";

/// The claims in the comments of a file, and their problems (`path:line: what to do`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    /// An id and the function that holds it, as `path::function`.
    pub(super) held: Vec<(Id, String)>,
    pub(super) problems: Vec<String>,
}

pub(super) fn scan(file: &File) -> Claims {
    if !file.is_rust() || !file.text.contains(MARKER) {
        return Claims::default();
    }
    let mut scanner = Scanner { file, claims: Claims::default(), lines: BTreeSet::new() };
    match syn::parse_file(&file.text) {
        Ok(syntax) => scanner.visit_file(&syntax),
        Err(error) => {
            let line = error.span().start().line;
            scanner.problem(line, &format!("the file does not parse ({error}): fix it"));
            return scanner.claims;
        }
    }
    for (line, text) in file.lines() {
        if is_doc_comment(text) && marked(text).is_some() && !scanner.lines.contains(&line) {
            scanner.problem(line, "`Holds:` belongs to a test function: move it there");
        }
    }
    scanner.claims
}

fn is_doc_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

/// The text after the marker; none if the marker is in backticks.
fn marked(line: &str) -> Option<&str> {
    let (before, after) = line.split_once(MARKER)?;
    (!before.ends_with('`')).then_some(after)
}

struct Scanner<'f> {
    file: &'f File,
    claims: Claims,
    /// The lines with a marker that belong to a function.
    lines: BTreeSet<usize>,
}

impl Scanner<'_> {
    fn problem(&mut self, line: usize, text: &str) {
        self.claims.problems.push(format!("{}:{line}: {text}", self.file.path));
    }

    fn function(&mut self, attributes: &[Attribute], name: &Ident, is_case: bool) {
        let docs: Vec<(usize, String)> = attributes.iter().filter_map(doc_line).collect();
        let is_test = is_case || attributes.iter().any(is_test_attribute);
        for (index, (line, text)) in docs.iter().enumerate() {
            let Some(start) = marked(text) else { continue };
            self.lines.insert(*line);
            if !is_test {
                self.problem(
                    *line,
                    &format!("`{name}` holds ids but is not a test: add #[test] or move the line"),
                );
                continue;
            }
            match ids::parse_list(&complete_list(start, &docs[index + 1..])) {
                Ok(ids) => {
                    let holder = format!("{}::{name}", self.file.path);
                    self.claims.held.extend(ids.into_iter().map(|id| (id, holder.clone())));
                }
                Err(error) => self.problem(*line, &error),
            }
        }
    }
}

/// The list with its continuation lines: a list continues after a comma, or if the next line starts with an id.
fn complete_list(start: &str, following: &[(usize, String)]) -> String {
    let mut list = start.trim().to_owned();
    for (_, next) in following {
        let next = next.trim();
        if list.ends_with('.') || !(list.ends_with(',') || ids::starts_like_id(next)) {
            break;
        }
        list = format!("{}, {next}", list.trim_end_matches(','));
    }
    list
}

fn doc_line(attribute: &Attribute) -> Option<(usize, String)> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &pair.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    let line = attribute.pound_token.spans[0].start().line;
    pair.path.is_ident("doc").then(|| (line, text.value()))
}

/// `#[test]`, `#[tokio::test]` and similar attributes.
fn is_test_attribute(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

impl Visit<'_> for Scanner<'_> {
    fn visit_item_fn(&mut self, item: &ItemFn) {
        let public = matches!(item.vis, Visibility::Public(_));
        let is_case = public && item.sig.asyncness.is_some() && cases::may_be_in(&self.file.path);
        self.function(&item.attrs, &item.sig.ident, is_case);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        self.function(&item.attrs, &item.sig.ident, false);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &TraitItemFn) {
        self.function(&item.attrs, &item.sig.ident, false);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, item: &Macro) {
        let named = item.path.segments.last().is_some_and(|segment| segment.ident == "proptest");
        if let (true, Ok(properties)) = (named, item.parse_body::<Properties>()) {
            for (attributes, name) in &properties.0 {
                self.function(attributes, name, false);
            }
        }
    }
}

/// The functions inside `proptest! { … }`, whose arguments are not Rust syntax.
struct Properties(Vec<(Vec<Attribute>, Ident)>);

impl Parse for Properties {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Attribute::parse_inner(input)?;
        let mut functions = Vec::new();
        while !input.is_empty() {
            let attributes = Attribute::parse_outer(input)?;
            while !input.peek(Token![fn]) {
                input.parse::<TokenTree>()?;
            }
            input.parse::<Token![fn]>()?;
            functions.push((attributes, input.parse()?));
            while !input.peek(token::Brace) {
                input.parse::<TokenTree>()?;
            }
            input.parse::<TokenTree>()?;
        }
        Ok(Self(functions))
    }
}

#[cfg(test)]
mod tests;
