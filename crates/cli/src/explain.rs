//! `oncebox explain`: what happened to my message?

mod story;

pub(crate) use story::tell;

use oncebox_client::Client;
use oncebox_client::wire::operator::{ByKey, Namespace, Show};

use crate::output::Output;
use crate::trouble::Trouble;
use crate::word;

/// Tells the story of one message: when it came, who has it, what went wrong, what comes next.
///
/// Prose, also on a pipe; with --output json or ndjson, everything that is known as JSON.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "oncebox explain [OPTIONS] <ID>\n       oncebox explain [OPTIONS] --topic <TOPIC> --key <KEY>"
)]
pub(crate) struct Arguments {
    /// The message, as a ULID or a UUID.
    #[arg(conflicts_with_all = ["topic", "source", "key"], required_unless_present = "key")]
    id: Option<String>,
    /// The topic of its key, in the mailbox.
    #[arg(long, value_name = "TOPIC", requires = "key", conflicts_with = "source")]
    topic: Option<String>,
    /// The source of its key, in other namespaces.
    #[arg(long, value_name = "SOURCE", requires = "key")]
    source: Option<String>,
    /// Its key.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The face that the key belongs to.
    #[arg(long, value_name = "NAMESPACE", default_value = "mailbox", value_parser = word::namespaces())]
    namespace: Namespace,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    let message = match (&arguments.id, &arguments.key) {
        (Some(id), _) => client.message(id, &Show::default()).await?,
        (None, key) => {
            let source = arguments.topic.clone().or(arguments.source.clone());
            if source.is_none() && arguments.namespace != Namespace::Ledger {
                return Err(Trouble::Misused("a key belongs to a topic: give --topic, or --source".into()));
            }
            let (namespace, id) = (Some(arguments.namespace), key.clone().unwrap_or_default());
            client.message_by_key(&ByKey { namespace, source, id, payload: None }).await?
        }
    };
    let output = output.of_prose();
    output.one(&message, || output.prose(tell(&message)))
}
