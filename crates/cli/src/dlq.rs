//! `oncebox dlq`: dead letters of the mailbox.

use oncebox_client::Client;
use oncebox_client::wire::operator::{ListDead, Reason, Show, Sort, Sweep};

use crate::output::Output;
use crate::redrive::{Job, Of, Pace, Which};
use crate::remote::gather;
use crate::trouble::Trouble;
use crate::{message, word};

/// Shows dead letters, and redrives them: gives them another chance.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists dead letters, the oldest first.
    List {
        #[command(flatten)]
        filter: Filter,
        /// The newest first.
        #[arg(long)]
        newest: bool,
        /// So many at most.
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Shows a dead letter.
    Show {
        /// Its message.
        id: String,
        /// With its payload.
        #[arg(long)]
        payload: bool,
    },
    /// Redrives dead letters, in pieces: those named, or those that match get another chance.
    Redrive(Redrive),
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Dead for this reason.
    #[arg(long, value_name = "REASON", value_parser = word::reasons())]
    reason: Option<Reason>,
}

#[derive(Debug, clap::Args)]
struct Redrive {
    /// These messages.
    #[arg(value_name = "ID", conflicts_with_all = ["topic", "reason", "error", "since", "until", "limit", "all"],
        required_unless_present_any = ["topic", "reason", "error", "since", "until", "all"])]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    which: Which,
    /// All there are.
    #[arg(long, conflicts_with_all = ["topic", "reason", "error", "since", "until"])]
    all: bool,
    /// How many at most; all that match if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    pace: Pace,
    /// Only counts those that match.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    match &arguments.command {
        Command::List { filter, newest, limit } => {
            let sort = Some(if *newest { Sort::Newest } else { Sort::Oldest });
            let page = async |after, limit| {
                let (reason, topic) = (filter.reason, filter.topic.clone());
                client.dlq(&ListDead { reason, topic, sort, limit: Some(limit), after }).await
            };
            message::list(&gather(*limit, page).await?, output)
        }
        Command::Show { id, payload } => {
            let show = Show { payload: Some(*payload) };
            message::show(&client.dead_letter(id, &show).await?, output)
        }
        Command::Redrive(Redrive { ids, filter, which, limit, pace, dry_run, .. }) => {
            let (ids, topic, reason) = (ids.clone(), filter.topic.clone(), filter.reason);
            let sweep =
                which.choose(Sweep { ids, topic, reason, list: true, dry_run: *dry_run, ..Sweep::default() });
            Job { client: &client, of: Of::Mailbox, sweep, limit: *limit, pace }.run(output).await
        }
    }
}
