//! `oncebox dlq`: dead letters of the mailbox.

use oncebox_client::Client;
use oncebox_client::wire::operator::{ListDead, Reason, Reprocess, Show, Sort};

use crate::output::Output;
use crate::remote::gather;
use crate::trouble::Trouble;
use crate::{message, word};

/// Looks at dead letters, and gives them another chance.
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
    /// Gives dead letters another chance: those named, or those that match.
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
    #[arg(value_name = "ID", conflicts_with_all = ["topic", "reason", "limit", "all"],
        required_unless_present_any = ["topic", "reason", "all"])]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// All there are.
    #[arg(long, conflicts_with_all = ["topic", "reason"])]
    all: bool,
    /// So many at most; 10,000 if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: Option<u32>,
    /// Only tells how many match.
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
        Command::Redrive(Redrive { ids, filter, limit, dry_run, .. }) => {
            let (topic, reason) = (filter.topic.clone(), filter.reason);
            let wish = Reprocess { ids: ids.clone(), topic, reason, limit: *limit, dry_run: *dry_run };
            message::swept(&client.reprocess(&wish).await?, "redriven", output)
        }
    }
}
