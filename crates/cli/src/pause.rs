//! `oncebox pause` and `oncebox resume`: stop and continue the flow of messages through a topic.

use oncebox_client::Client;
use oncebox_client::wire::operator::{
    ListPausedRequest, PauseName, PauseRequest, PausedTopicDetails, QueueName,
};

use crate::error::CliError;
use crate::output::{self, Cell, Output, table};
use crate::{quantity, value};

/// Pause a topic: reject new messages, keep back stored ones, or both.
///
/// The pause survives restarts and applies to all servers on the same store within a second. To drain a topic, use
/// --sending: new messages are rejected, and receivers get what is stored.
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArguments {
    /// Topic to pause; without one, list the paused topics.
    topic: Option<String>,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    common: Common,
}

/// Resume a paused topic.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArguments {
    /// Topic to resume.
    topic: String,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Part {
    /// Only sending (default: both).
    #[arg(long, conflicts_with = "receiving", requires = "topic")]
    sending: bool,
    /// Only receiving (default: both).
    #[arg(long, requires = "topic")]
    receiving: bool,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Namespace of the topic.
    #[arg(long, value_name = "NAMESPACE", default_value = "mailbox", value_parser = value::queues())]
    namespace: QueueName,
    /// Reason, which listings and the audit log show.
    #[arg(long, value_name = "REASON")]
    because: Option<String>,
}

impl Part {
    fn name(&self) -> PauseName {
        match (self.sending, self.receiving) {
            (true, false) => PauseName::Sending,
            (false, true) => PauseName::Receiving,
            _ => PauseName::Both,
        }
    }
}

fn request(topic: &str, part: &Part, common: &Common) -> PauseRequest {
    PauseRequest {
        namespace: Some(common.namespace),
        topic: topic.to_owned(),
        pause: Some(part.name()),
        because: common.because.clone(),
    }
}

pub(crate) async fn pause(
    PauseArguments { topic, part, common }: &PauseArguments,
    client: Client,
    output: Output,
) -> Result<(), CliError> {
    let topics = match topic {
        Some(topic) => Vec::from_iter(client.pause_topic(&request(topic, part, common)).await?.paused),
        None => {
            let list = ListPausedRequest { namespace: Some(common.namespace) };
            client.paused_topics(&list).await?.topics
        }
    };
    if topics.is_empty() {
        output::note("no topic is paused");
    }
    print(&topics, output)
}

pub(crate) async fn resume(
    ResumeArguments { topic, part, common }: &ResumeArguments,
    client: Client,
    output: Output,
) -> Result<(), CliError> {
    let left = client.resume_topic(&request(topic, part, common)).await?.paused;
    if left.is_none() {
        output::note("nothing is paused in this topic");
    }
    print(left.as_slice(), output)
}

fn print(topics: &[PausedTopicDetails], output: Output) -> Result<(), CliError> {
    output.write_list(topics, || {
        let rows: Vec<_> = topics.iter().map(row).collect();
        table(output, &["topic", "paused", "since", "by", "reason"], &rows)
    })
}

fn row(paused: &PausedTopicDetails) -> Vec<Cell> {
    let PausedTopicDetails { topic, pause, since, actor, reason } = paused;
    let texts =
        [topic.clone(), value::wire_name(pause), quantity::with_age(since), actor.clone(), reason.clone()];
    texts.into_iter().map(Cell::from).collect()
}
