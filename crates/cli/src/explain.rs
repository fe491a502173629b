//! `oncebox explain`: the history of one message.

mod description;

pub(crate) use description::describe;

use oncebox_client::Client;
use oncebox_client::wire::operator::{ByKeyRequest, NamespaceName, ShowRequest};

use crate::error::CliError;
use crate::output::Output;
use crate::value;

/// Explain the history of one message.
///
/// Shows when it was accepted, which worker holds it, what failed and what happens next. Writes prose, also to a
/// pipe; with --output json or ndjson, all fields of the message as JSON.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oncebox explain [OPTIONS] <ID>\n       oncebox explain [OPTIONS] --topic <TOPIC> --key <KEY>"
)]
pub(crate) struct Arguments {
    /// Message id, as a ULID or a UUID.
    #[arg(conflicts_with_all = ["topic", "source", "key"], required_unless_present = "key")]
    id: Option<String>,
    /// Topic of the message, in the mailbox.
    #[arg(long, value_name = "TOPIC", requires = "key", conflicts_with = "source")]
    topic: Option<String>,
    /// Source of the message, in the other namespaces.
    #[arg(long, value_name = "SOURCE", requires = "key")]
    source: Option<String>,
    /// Key of the message.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Namespace of the key.
    #[arg(long, value_name = "NAMESPACE", default_value = "mailbox", value_parser = value::namespaces())]
    namespace: NamespaceName,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    let message = match (&arguments.id, &arguments.key) {
        (Some(id), _) => client.message(id, &ShowRequest::default()).await?,
        (None, key) => {
            let source = arguments.topic.clone().or(arguments.source.clone());
            if source.is_none() && arguments.namespace != NamespaceName::Ledger {
                return Err(CliError::Usage("--key needs a topic: give --topic, or --source".into()));
            }
            let (namespace, id) = (Some(arguments.namespace), key.clone().unwrap_or_default());
            client.message_by_key(&ByKeyRequest { namespace, source, id, payload: None }).await?
        }
    };
    let output = output.prose_by_default();
    output.write_one(&message, || output.wrap_prose(describe(&message)))
}
