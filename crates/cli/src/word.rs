//! Words of the wire on the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use oncebox_client::wire::operator::{Namespace, Reason, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As it is written on the wire.
pub(crate) fn of(word: impl Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(Value::String(text)) => text,
        _ => "?".to_owned(),
    }
}

fn parser<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<T>(Value::String(word)))
}

pub(crate) fn namespaces() -> impl TypedValueParser<Value = Namespace> {
    parser(&["inbox", "commands", "ledger", "mailbox"])
}

pub(crate) fn states() -> impl TypedValueParser<Value = State> {
    parser(&["seen", "processing", "done", "dead"])
}

pub(crate) fn reasons() -> impl TypedValueParser<Value = Reason> {
    parser(&["failed", "exhausted", "expired", "cancelled", "integrity", "unhandled", "undecodable"])
}

/// `name=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| "give it as name=value".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
