//! `oncebox messages`: messages of all faces, for operators.

use oncebox_client::Client;
use oncebox_client::wire::operator::{List, Namespace, Reason, Show, Sort, State, Sweep};

use crate::output::Output;
use crate::redrive::{Job, Of, Pace, Which};
use crate::remote::gather;
use crate::trouble::Trouble;
use crate::{message, word};

/// Lists, shows, redrives and erases messages of all faces.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists messages, the oldest first.
    List {
        #[command(flatten)]
        filter: Filter,
        /// In this state.
        #[arg(long, value_name = "STATE", value_parser = word::states())]
        state: Option<State>,
        /// The newest first.
        #[arg(long)]
        newest: bool,
        /// So many at most.
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Shows a message.
    Show {
        /// The message, as a ULID or a UUID.
        id: String,
        /// With its payload.
        #[arg(long)]
        payload: bool,
    },
    /// Redrives Dead messages, in pieces: those named, or those that match get another chance.
    Redrive {
        #[command(flatten)]
        choice: Choice,
        #[command(flatten)]
        pace: Pace,
    },
    /// Erases messages: those named, or those that match. Nothing remains of them.
    Purge {
        #[command(flatten)]
        choice: Choice,
        /// In this state; dead if not given.
        #[arg(long, value_name = "STATE", value_parser = word::states(), conflicts_with = "ids")]
        state: Option<State>,
        /// Yes, erase them.
        #[arg(long, required_unless_present = "dry_run")]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Of this face.
    #[arg(long, value_name = "NAMESPACE", default_value = "mailbox", value_parser = word::namespaces())]
    namespace: Namespace,
    /// Of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// From this source.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Dead for this reason.
    #[arg(long, value_name = "REASON", value_parser = word::reasons())]
    reason: Option<Reason>,
}

/// Which messages are changed.
#[derive(Debug, clap::Args)]
struct Choice {
    /// These messages.
    #[arg(value_name = "ID", conflicts_with_all = ["topic", "source", "reason", "error", "since", "until", "limit", "all"],
        required_unless_present_any = ["topic", "source", "reason", "error", "since", "until", "all"])]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    which: Which,
    /// All there are.
    #[arg(long, conflicts_with_all = ["topic", "source", "reason", "error", "since", "until"])]
    all: bool,
    /// How many at most. A purge erases 10,000 if not given, a redrive takes all that match.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: Option<u32>,
    /// Only counts those that match.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

impl Choice {
    fn sweep(&self) -> Sweep {
        let Self { ids, filter, which, limit, dry_run, because, .. } = self;
        which.choose(Sweep {
            namespace: Some(filter.namespace),
            ids: ids.clone(),
            state: None,
            reason: filter.reason,
            topic: filter.topic.clone(),
            source: filter.source.clone(),
            limit: *limit,
            list: true,
            dry_run: *dry_run,
            because: because.clone(),
            ..Sweep::default()
        })
    }
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    match &arguments.command {
        Command::List { filter, state, newest, limit } => {
            let page = async |after, limit| {
                let list = List {
                    namespace: Some(filter.namespace),
                    state: *state,
                    reason: filter.reason,
                    topic: filter.topic.clone(),
                    source: filter.source.clone(),
                    sort: Some(if *newest { Sort::Newest } else { Sort::Oldest }),
                    limit: Some(limit),
                    after,
                };
                client.messages(&list).await
            };
            message::list(&gather(*limit, page).await?, output)
        }
        Command::Show { id, payload } => {
            let show = Show { payload: Some(*payload) };
            message::show(&client.message(id, &show).await?, output)
        }
        Command::Redrive { choice, pace } => {
            let (sweep, limit) = (Sweep { limit: None, ..choice.sweep() }, choice.limit);
            Job { client: &client, of: Of::Namespace, sweep, limit, pace }.run(output).await
        }
        Command::Purge { choice, state, yes } => {
            let sweep = Sweep { state: *state, confirm: *yes, ..choice.sweep() };
            message::swept(&client.purge(&sweep).await?, "erased", output)
        }
    }
}
