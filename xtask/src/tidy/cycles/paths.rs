//! The paths in a source file.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Ident, TokenStream, TokenTree};

/// A path, as written: names separated by `::`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    /// Where the path starts from, seen from `module`, and the names that follow.
    pub(super) fn absolute(&self, module: &[String]) -> (Vec<String>, Vec<String>) {
        let mut start = module.to_vec();
        let mut names = self.0.as_slice();
        while let Some((first, rest)) = names.split_first() {
            match first.as_str() {
                "crate" => start.clear(),
                "super" => drop(start.pop()),
                "self" => {}
                _ => break,
            }
            names = rest;
        }
        (start, names.to_vec())
    }

    /// Whether it starts at a module of this crate.
    fn is_anchored(&self) -> bool {
        matches!(self.0.first().map(String::as_str), Some("crate" | "super" | "self"))
    }
}

/// What a file names and imports, without its tests.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// The paths that start with `crate`, `super` or `self`, with their lines.
    pub(super) named: Vec<(Path, usize)>,
    /// The paths that a `use` gives a name, by that name.
    pub(super) imports: BTreeMap<String, Path>,
    /// The child modules that are compiled for tests only.
    pub(super) test_modules: BTreeSet<String>,
}

impl Paths {
    /// Reads a file. One that is not Rust has no paths; the compiler reports it.
    pub(super) fn read(&mut self, text: &str) {
        self.scan(text.parse().unwrap_or_default());
    }

    fn scan(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut for_tests = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "use" => {
                    // Not the `use<…>` of a type.
                    if !tokens.peek().is_some_and(|token| is_punct(token, '<')) {
                        let tree = std::iter::from_fn(|| tokens.next_if(|token| !is_punct(token, ';')));
                        self.import(&[], tree.collect());
                    }
                }
                TokenTree::Ident(word) if word == "mod" && for_tests => {
                    let name = tokens.next().map(|name| name.to_string());
                    if tokens.next_if(|token| matches!(token, TokenTree::Group(_))).is_none() {
                        self.test_modules.extend(name);
                    }
                    for_tests = false;
                }
                TokenTree::Ident(word) => {
                    for_tests &= word == "pub";
                    self.path(&word, &mut tokens);
                }
                TokenTree::Group(group) => {
                    for_tests |= group.stream().to_string().replace(' ', "") == "cfg(test)";
                    self.scan(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads the rest of a path that starts with this word.
    fn path(&mut self, first: &Ident, tokens: &mut Peekable<IntoIter>) {
        let mut names = vec![first.to_string()];
        while tokens.next_if(|token| is_punct(token, ':')).is_some() {
            // A single colon is followed by a type, which is a path of its own.
            if tokens.next_if(|token| is_punct(token, ':')).is_none() {
                break;
            }
            match tokens.next_if(|token| matches!(token, TokenTree::Ident(_))) {
                Some(name) => names.push(name.to_string()),
                None => break,
            }
        }
        let path = Path(names);
        if path.is_anchored() {
            self.named.push((path, first.span().start().line));
        }
    }

    /// Reads the tree of a `use` after the names before it.
    fn import(&mut self, before: &[String], tree: TokenStream) {
        let (mut names, mut alias, mut line) = (before.to_vec(), None, 0);
        let mut tokens = tree.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    alias = tokens.next().map(|name| name.to_string());
                }
                TokenTree::Ident(word) => {
                    line = word.span().start().line;
                    names.push(word.to_string());
                }
                TokenTree::Group(group) => {
                    let items: Vec<TokenTree> = group.stream().into_iter().collect();
                    for item in items.split(|token| is_punct(token, ',')) {
                        self.import(&names, item.iter().cloned().collect());
                    }
                    return;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        // In a list, `self` is the path before it.
        if names.len() > 1 {
            names.pop_if(|last| last == "self");
        }
        let Some(last) = names.last().cloned() else { return };
        let path = Path(names);
        if path.is_anchored() && line > 0 {
            self.named.push((path.clone(), line));
        }
        self.imports.insert(alias.unwrap_or(last), path);
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}
