//! `oncebox dlq`: lists, shows and redrives dead letters of the mailbox.

use oncebox_client::Client;
use oncebox_client::wire::operator::{ListDeadRequest, ReasonName, ShowRequest, SortOrder, SweepRequest};

use crate::error::CliError;
use crate::output::Output;
use crate::redrive::{DeadFilter, Job, Pace, Target};
use crate::remote::list_all;
use crate::{message, value};

/// List, show and redrive dead letters of the mailbox.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List dead letters, oldest first.
    List {
        #[command(flatten)]
        filter: Filter,
        /// List the newest first.
        #[arg(long)]
        newest: bool,
        /// Maximum number of dead letters to list.
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Show one dead letter.
    Show {
        /// Message id of the dead letter.
        id: String,
        /// Include the payload.
        #[arg(long)]
        payload: bool,
    },
    /// Redrive dead letters, so that they are delivered again.
    ///
    /// Redrives those with the given ids, or in batches all that match.
    Redrive(Redrive),
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Only dead letters of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only dead letters with this reason.
    #[arg(long, value_name = "REASON", value_parser = value::reasons())]
    reason: Option<ReasonName>,
}

#[derive(Debug, clap::Args)]
struct Redrive {
    /// Message ids to redrive.
    #[arg(value_name = "ID", conflicts_with_all = ["topic", "reason", "error", "since", "until", "limit", "all"],
        required_unless_present_any = ["topic", "reason", "error", "since", "until", "all"])]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    dead_filter: DeadFilter,
    /// Redrive all dead letters.
    #[arg(long, conflicts_with_all = ["topic", "reason", "error", "since", "until"])]
    all: bool,
    /// Maximum number of dead letters to redrive (default: all that match).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    pace: Pace,
    /// Only count the dead letters that match; change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    match &arguments.command {
        Command::List { filter, newest, limit } => {
            let sort = Some(if *newest { SortOrder::Newest } else { SortOrder::Oldest });
            let page = async |after, limit| {
                let (reason, topic) = (filter.reason, filter.topic.clone());
                client.dlq(&ListDeadRequest { reason, topic, sort, limit: Some(limit), after }).await
            };
            message::list(&list_all(*limit, page).await?, output)
        }
        Command::Show { id, payload } => {
            let show = ShowRequest { payload: Some(*payload) };
            message::show(&client.dead_letter(id, &show).await?, output)
        }
        Command::Redrive(Redrive { ids, filter, dead_filter, limit, pace, dry_run, .. }) => {
            let (ids, topic, reason) = (ids.clone(), filter.topic.clone(), filter.reason);
            let sweep = dead_filter.apply(SweepRequest {
                ids,
                topic,
                reason,
                list: true,
                dry_run: *dry_run,
                ..SweepRequest::default()
            });
            Job { client: &client, target: Target::Mailbox, sweep, limit: *limit, pace }.run(output).await
        }
    }
}
