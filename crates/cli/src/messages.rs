//! `oncebox messages`: messages in any namespace, for operators.

use oncebox_client::Client;
use oncebox_client::wire::operator::{
    ListRequest, NamespaceName, ReasonName, ShowRequest, SortOrder, StateName, SweepRequest,
};

use crate::error::CliError;
use crate::output::Output;
use crate::redrive::{DeadFilter, Job, Pace, Target};
use crate::remote::list_all;
use crate::{message, value};

/// List, show, redrive and erase messages in any namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List messages, oldest first.
    List {
        #[command(flatten)]
        filter: Filter,
        /// Only messages in this state.
        #[arg(long, value_name = "STATE", value_parser = value::states())]
        state: Option<StateName>,
        /// List the newest first.
        #[arg(long)]
        newest: bool,
        /// Maximum number of messages to list.
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Show one message.
    Show {
        /// Message id, as a ULID or a UUID.
        id: String,
        /// Include the payload.
        #[arg(long)]
        payload: bool,
    },
    /// Redrive dead messages, so that they are delivered again.
    ///
    /// Redrives those with the given ids, or in batches all that match.
    Redrive {
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        pace: Pace,
    },
    /// Erase messages permanently.
    ///
    /// Erases those with the given ids, or all that match.
    Purge {
        #[command(flatten)]
        selection: Selection,
        /// Only messages in this state (default: dead).
        #[arg(long, value_name = "STATE", value_parser = value::states(), conflicts_with = "ids")]
        state: Option<StateName>,
        /// Confirm that the messages are erased.
        #[arg(long, required_unless_present = "dry_run")]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Namespace of the messages.
    #[arg(long, value_name = "NAMESPACE", default_value = "mailbox", value_parser = value::namespaces())]
    namespace: NamespaceName,
    /// Only messages of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only messages from this source.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Only dead messages with this reason.
    #[arg(long, value_name = "REASON", value_parser = value::reasons())]
    reason: Option<ReasonName>,
}

/// The messages that a command changes.
#[derive(Debug, clap::Args)]
struct Selection {
    /// Message ids.
    #[arg(value_name = "ID", conflicts_with_all = ["topic", "source", "reason", "error", "since", "until", "limit", "all"],
        required_unless_present_any = ["topic", "source", "reason", "error", "since", "until", "all"])]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    dead_filter: DeadFilter,
    /// Select all messages.
    #[arg(long, conflicts_with_all = ["topic", "source", "reason", "error", "since", "until"])]
    all: bool,
    /// Maximum number of messages (default: 10,000 for a purge, all that match for a redrive).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: Option<u32>,
    /// Only count the messages that match; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Reason, recorded in the audit log.
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

impl Selection {
    fn sweep(&self) -> SweepRequest {
        let Self { ids, filter, dead_filter, limit, dry_run, because, .. } = self;
        dead_filter.apply(SweepRequest {
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
            ..SweepRequest::default()
        })
    }
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    match &arguments.command {
        Command::List { filter, state, newest, limit } => {
            let page = async |after, limit| {
                let list = ListRequest {
                    namespace: Some(filter.namespace),
                    state: *state,
                    reason: filter.reason,
                    topic: filter.topic.clone(),
                    source: filter.source.clone(),
                    sort: Some(if *newest { SortOrder::Newest } else { SortOrder::Oldest }),
                    limit: Some(limit),
                    after,
                };
                client.messages(&list).await
            };
            message::list(&list_all(*limit, page).await?, output)
        }
        Command::Show { id, payload } => {
            let show = ShowRequest { payload: Some(*payload) };
            message::show(&client.message(id, &show).await?, output)
        }
        Command::Redrive { selection, pace } => {
            let (sweep, limit) = (SweepRequest { limit: None, ..selection.sweep() }, selection.limit);
            Job { client: &client, target: Target::Namespace, sweep, limit, pace }.run(output).await
        }
        Command::Purge { selection, state, yes } => {
            let sweep = SweepRequest { state: *state, confirm: *yes, ..selection.sweep() };
            message::print_sweep(&client.purge(&sweep).await?, "erased", output)
        }
    }
}
