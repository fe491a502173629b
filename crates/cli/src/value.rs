//! Wire values on the command line: parsers for enum values and `name=value` pairs.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use oncebox_client::wire::operator::{NamespaceName, QueueName, ReasonName, StateName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The name of an enum value as it is written on the wire.
pub(crate) fn wire_name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        _ => "?".to_owned(),
    }
}

fn parser<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| serde_json::from_value::<T>(Value::String(name)))
}

pub(crate) fn namespaces() -> impl TypedValueParser<Value = NamespaceName> {
    parser(&["inbox", "commands", "ledger", "mailbox"])
}

/// The namespaces whose messages have topics.
pub(crate) fn queues() -> impl TypedValueParser<Value = QueueName> {
    parser(&["inbox", "commands", "mailbox"])
}

pub(crate) fn states() -> impl TypedValueParser<Value = StateName> {
    parser(&["seen", "processing", "done", "dead"])
}

pub(crate) fn reasons() -> impl TypedValueParser<Value = ReasonName> {
    parser(&["failed", "exhausted", "expired", "cancelled", "integrity", "unhandled", "undecodable"])
}

/// Parses `name=value`.
pub(crate) fn name_and_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| "expected name=value".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
