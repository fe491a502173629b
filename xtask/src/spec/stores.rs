//! On which stores a test runs: read from its code and from that of the functions it calls, so that nobody has to say
//! it by hand.
//!
//! A test in a store's crate runs on that store; a case of the testkit runs on every store that names its macro; any
//! other test runs on the stores that its body mentions, or the functions that it calls, by name and within its crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::cases;
use crate::workspace::File;

/// Where messages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    Memory,
    Embedded,
    Postgres,
    /// PostgreSQL behind a pooler in transaction mode.
    Pgbouncer,
    /// The layer that merges calls, in front of the memory store.
    Coalesced,
}

pub(super) type Stores = BTreeSet<Store>;

/// What a requirement concerns unless its row says otherwise.
pub(super) const EVERY: [Store; 3] = [Store::Memory, Store::Embedded, Store::Postgres];

const NAMES: [(&str, Store); 5] = [
    ("memory", Store::Memory),
    ("embedded", Store::Embedded),
    ("postgres", Store::Postgres),
    ("pgbouncer", Store::Pgbouncer),
    ("coalesced", Store::Coalesced),
];

/// Words in code that stand for a store, wherever they are mentioned.
const WORDS: [(&str, Store); 7] = [
    ("MemoryStore", Store::Memory),
    ("EmbeddedStore", Store::Embedded),
    ("PostgresStore", Store::Postgres),
    ("Postgres", Store::Postgres),
    ("on_postgres", Store::Postgres),
    ("PgBouncer", Store::Pgbouncer),
    ("Coalesced", Store::Coalesced),
];

/// How the text of a store's URL begins.
const URLS: [(&str, Store); 2] = [("\"memory:", Store::Memory), ("\"embedded:", Store::Embedded)];

/// Crates and files all of whose tests run on one store.
const CRATES: [(&str, Store); 6] = [
    ("crates/store-memory/", Store::Memory),
    ("crates/store-embedded/", Store::Embedded),
    ("crates/store-postgres/", Store::Postgres),
    ("crates/sim/", Store::Memory),
    ("crates/torture/tests/it/main.rs", Store::Embedded),
    ("crates/torture/tests/it/postgres.rs", Store::Postgres),
];

/// The macros that make tests of cases.
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

/// Our own examples of code are no tests of a store.
const OWN: &str = "xtask/";

/// What is known about all functions of the workspace.
#[derive(Debug, Default)]
pub(super) struct Code {
    functions: BTreeMap<Place, Function>,
    /// The stores that name the macro of the cases in this folder.
    cases: BTreeMap<&'static str, Stores>,
}

/// A function's crate, file and name, which is `Type::name` for one that belongs to a type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
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
            // What does not parse is reported where claims are read.
            if let Ok(tokens) = file.text.parse::<TokenStream>() {
                code.items(&file.path, None, tokens);
            }
            for (_, folder) in MACROS.iter().filter(|(call, _)| calls_macro(&file.text, call)) {
                code.cases.entry(folder).or_default().extend(opened_by(file));
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
        let place = Place { member: member(path), path: path.to_owned(), name: name.to_owned() };
        let (mut stores, mut seen) = (Stores::new(), BTreeSet::from([place.clone()]));
        let mut left = vec![place];
        while let Some(place) = left.pop() {
            let Some(function) = self.functions.get(&place) else { continue };
            stores.extend(&function.mentions);
            let called = function.calls.iter().flat_map(|name| self.named(&place, name));
            left.extend(called.filter(|next| seen.insert(next.clone())).collect::<Vec<_>>());
        }
        stores
    }

    /// The functions that a call by this name may mean: in the same file, or else anywhere in the crate.
    fn named(&self, from: &Place, name: &str) -> Vec<Place> {
        let here = Place { name: name.to_owned(), ..from.clone() };
        if self.functions.contains_key(&here) {
            return vec![here];
        }
        let all = self.functions.keys().filter(|place| place.member == from.member && place.name == name);
        all.cloned().collect()
    }

    /// Notes the functions among these tokens; `owner` is the type whose they are.
    fn items(&mut self, path: &str, owner: Option<&str>, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut belongs_to: Option<String> = None;
        // How deep in angle brackets: what stands there is not the type's own name.
        let mut depth = 0_i32;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "fn" => {
                    let Some(TokenTree::Ident(name)) = tokens.next() else { continue };
                    let name = name.to_string();
                    let body = tokens.by_ref().find(is_end_of_head);
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
        let place = Place { member: member(path), path: path.to_owned(), name };
        let function = self.functions.entry(place).or_default();
        function.read(owner, body);
    }
}

/// A function's head ends with its body, or with a semicolon.
fn is_end_of_head(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    }
}

impl Function {
    /// Notes the stores that the tokens mention and the functions that they call.
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
                    // A method's name says too little to know whose it is.
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

/// What a call by this path calls: `Type::name`, or `name` whatever its modules.
fn callee(path: &[String]) -> Option<String> {
    let name = path.last()?;
    let owner = path.len().checked_sub(2).map(|before| &path[before]);
    let owner = owner.filter(|owner| owner.starts_with(char::is_uppercase));
    Some(owner.map_or_else(|| name.clone(), |owner| format!("{owner}::{name}")))
}

/// Whether a line of code begins a call of the macro; docs may show one.
fn calls_macro(text: &str, call: &str) -> bool {
    text.lines().any(|line| line.split("//").next().is_some_and(|code| code.contains(call)))
}

/// The store on which a file opens the cases.
fn opened_by(file: &File) -> Option<Store> {
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
