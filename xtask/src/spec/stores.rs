//! The stores that a test runs on, derived from its code and the code of the functions it calls.
//!
//! A test in a store's crate runs on that store. A case of the testkit runs on every store that calls its macro. Any
//! other test runs on the stores that it or a function it calls mentions; calls are resolved by name within the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::cases;
use crate::workspace::File;

/// A store, or a configuration of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    Memory,
    Embedded,
    Postgres,
    /// PostgreSQL behind a pooler in transaction mode.
    Pgbouncer,
    /// The memory store behind the layer that coalesces calls.
    Coalesced,
}

pub(super) type Stores = BTreeSet<Store>;

/// The stores meant by `every store`.
pub(super) const EVERY: [Store; 3] = [Store::Memory, Store::Embedded, Store::Postgres];

const NAMES: [(&str, Store); 5] = [
    ("memory", Store::Memory),
    ("embedded", Store::Embedded),
    ("postgres", Store::Postgres),
    ("pgbouncer", Store::Pgbouncer),
    ("coalesced", Store::Coalesced),
];

/// Identifiers that mean a store, wherever they occur.
const WORDS: [(&str, Store); 7] = [
    ("MemoryStore", Store::Memory),
    ("EmbeddedStore", Store::Embedded),
    ("PostgresStore", Store::Postgres),
    ("Postgres", Store::Postgres),
    ("on_postgres", Store::Postgres),
    ("PgBouncer", Store::Pgbouncer),
    ("Coalesced", Store::Coalesced),
];

/// Start of a string literal with a store's URL.
const URLS: [(&str, Store); 2] = [("\"memory:", Store::Memory), ("\"embedded:", Store::Embedded)];

/// Crates and files whose tests all run on one store.
const CRATES: [(&str, Store); 6] = [
    ("crates/store-memory/", Store::Memory),
    ("crates/store-embedded/", Store::Embedded),
    ("crates/store-postgres/", Store::Postgres),
    ("crates/sim/", Store::Memory),
    ("crates/torture/tests/it/main.rs", Store::Embedded),
    ("crates/torture/tests/it/postgres.rs", Store::Postgres),
];

/// The macros that turn cases into tests.
const MACROS: [(&str, &str); 2] = [
    ("conformance!(open", "crates/testkit/src/conformance"),
    ("faulty_cases!(open", "crates/testkit/src/faulty"),
];

impl Store {
    pub(super) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, store)| *store)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, store)| store == self).map(|(name, _)| *name);
        formatter.write_str(name.unwrap_or_default())
    }
}

/// Skipped: xtask's tests contain code as text.
const OWN: &str = "xtask/";

/// All functions of the workspace.
#[derive(Debug, Default)]
pub(super) struct Code {
    functions: BTreeMap<FunctionPath, Function>,
    /// The stores that call the macro of the cases in this folder.
    cases: BTreeMap<&'static str, Stores>,
}

/// A function's crate, file and name, which is `Type::name` for one that belongs to a type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionPath {
    member: String,
    path: String,
    name: String,
}

#[derive(Debug, Default)]
struct Function {
    mentions: Stores,
    calls: BTreeSet<String>,
}

impl Code {
    pub(super) fn read(files: &[File]) -> Self {
        let mut code = Self::default();
        for file in files.iter().filter(|file| file.is_rust() && !file.path.starts_with(OWN)) {
            // A file that does not parse is reported where claims are read.
            if let Ok(tokens) = file.text.parse::<TokenStream>() {
                code.items(&file.path, None, tokens);
            }
            for (_, folder) in MACROS.iter().filter(|(call, _)| calls_macro(&file.text, call)) {
                code.cases.entry(folder).or_default().extend(store_of_cases(file));
            }
        }
        code
    }

    /// The stores that a test (`path::function`) runs on.
    pub(super) fn of(&self, holder: &str) -> Stores {
        let Some((path, name)) = holder.rsplit_once("::") else { return Stores::new() };
        if cases::may_be_in(path) {
            let folder = self.cases.iter().find(|(folder, _)| path.starts_with(**folder));
            return folder.map(|(_, stores)| stores.clone()).unwrap_or_default();
        }
        if let Some((_, store)) = CRATES.iter().find(|(member, _)| path.starts_with(member)) {
            return Stores::from([*store]);
        }
        let function_path =
            FunctionPath { member: member(path), path: path.to_owned(), name: name.to_owned() };
        let (mut stores, mut seen) = (Stores::new(), BTreeSet::from([function_path.clone()]));
        let mut pending = vec![function_path];
        while let Some(function_path) = pending.pop() {
            let Some(function) = self.functions.get(&function_path) else { continue };
            stores.extend(&function.mentions);
            let called = function.calls.iter().flat_map(|name| self.named(&function_path, name));
            pending.extend(called.filter(|next| seen.insert(next.clone())).collect::<Vec<_>>());
        }
        stores
    }

    /// The functions that a call by this name may mean: in the same file, or else anywhere in the crate.
    fn named(&self, from: &FunctionPath, name: &str) -> Vec<FunctionPath> {
        let here = FunctionPath { name: name.to_owned(), ..from.clone() };
        if self.functions.contains_key(&here) {
            return vec![here];
        }
        let all = self
            .functions
            .keys()
            .filter(|function_path| function_path.member == from.member && function_path.name == name);
        all.cloned().collect()
    }

    /// Collects the functions in these tokens; `owner` is the type that they belong to.
    fn items(&mut self, path: &str, owner: Option<&str>, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut belongs_to: Option<String> = None;
        // Depth in angle brackets, where names are not the name of the type.
        let mut depth = 0_i32;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "fn" => {
                    let Some(TokenTree::Ident(name)) = tokens.next() else { continue };
                    let name = name.to_string();
                    let body = tokens.by_ref().find(is_end_of_signature);
                    if let Some(TokenTree::Group(body)) = body {
                        self.function(path, owner, &name, body.stream());
                    }
                }
                TokenTree::Ident(word) if word == "impl" => (belongs_to, depth) = (Some(String::new()), 0),
                TokenTree::Ident(word) => {
                    if let (Some(owner), 0) = (&mut belongs_to, depth) {
                        *owner = word.to_string();
                    }
                }
                TokenTree::Punct(mark) => match mark.as_char() {
                    '<' => depth += 1,
                    '>' => depth -= 1,
                    _ => {}
                },
                TokenTree::Group(group) => {
                    let is_block = group.delimiter() == Delimiter::Brace;
                    let owner = if is_block { belongs_to.take() } else { None };
                    self.items(path, owner.as_deref(), group.stream());
                }
                TokenTree::Literal(_) => {}
            }
        }
    }

    fn function(&mut self, path: &str, owner: Option<&str>, name: &str, body: TokenStream) {
        let name = owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}::{name}"));
        let function_path = FunctionPath { member: member(path), path: path.to_owned(), name };
        let function = self.functions.entry(function_path).or_default();
        function.read(owner, body);
    }
}

/// A function's signature ends with its body or with a semicolon.
fn is_end_of_signature(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    }
}

impl Function {
    /// Collects the stores that the tokens mention and the functions that they call.
    fn read(&mut self, owner: Option<&str>, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut before = ' ';
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    self.mention(path.last().map(String::as_str), &word);
                    if before != ':' {
                        path.clear();
                    }
                    // The type of a method call is unknown.
                    if before != '.' {
                        path.push(if word == "Self" { owner.unwrap_or_default().to_owned() } else { word });
                    }
                    before = 'a';
                }
                TokenTree::Punct(mark) => {
                    before = mark.as_char();
                    if before != ':' {
                        path.clear();
                    }
                }
                TokenTree::Group(group) => {
                    if before == 'a' && group.delimiter() == Delimiter::Parenthesis {
                        self.calls.extend(callee(&path));
                    }
                    path.clear();
                    before = ' ';
                    self.read(owner, group.stream());
                }
                TokenTree::Literal(text) => {
                    let text = text.to_string();
                    let found = URLS.iter().filter(|(start, _)| text.starts_with(start));
                    self.mentions.extend(found.map(|(_, store)| *store));
                    path.clear();
                    before = ' ';
                }
            }
        }
    }

    fn mention(&mut self, before: Option<&str>, word: &str) {
        let found = WORDS.iter().find(|(known, _)| *known == word).map(|(_, store)| *store);
        let variant = match (before, word) {
            (Some("Store"), "Memory") => Some(Store::Memory),
            (Some("Store"), "Embedded") => Some(Store::Embedded),
            _ => None,
        };
        self.mentions.extend(found.or(variant));
    }
}

/// The function that a path calls: `Type::name`, or `name` without its modules.
fn callee(path: &[String]) -> Option<String> {
    let name = path.last()?;
    let owner = path.len().checked_sub(2).map(|before| &path[before]);
    let owner = owner.filter(|owner| owner.starts_with(char::is_uppercase));
    Some(owner.map_or_else(|| name.clone(), |owner| format!("{owner}::{name}")))
}

/// Whether the code, comments excluded, calls the macro.
fn calls_macro(text: &str, call: &str) -> bool {
    text.lines().any(|line| line.split("//").next().is_some_and(|code| code.contains(call)))
}

/// The store that a file runs the cases on.
fn store_of_cases(file: &File) -> Option<Store> {
    let mentioned = [("PgBouncer::", Store::Pgbouncer), ("Coalesced::", Store::Coalesced)];
    let mentioned = mentioned.iter().find(|(word, _)| file.text.contains(word));
    let owned = CRATES.iter().find(|(member, _)| file.path.starts_with(member));
    mentioned.or(owned).map(|(_, store)| *store)
}

/// The crate that a file belongs to.
fn member(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests;
