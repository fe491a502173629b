//! `oncebox topics`: the backlog of each topic.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::operator::{
    ListTopicsRequest, ListTopicsResponse, NamespaceName, PauseName, TopicDetails,
};

use crate::error::CliError;
use crate::output::{self, Cell, Format, Output, Progress, Tone, table};
use crate::{duration, quantity, value};

/// Maximum number of topics in one page.
const PAGE_MAX: u32 = 1_000;

/// List topics with messages that are not Done.
///
/// Shows the counts by state (`+` means at least), the age of the oldest message, the messages accepted and delivered
/// in the last minute, and the workers that hold messages.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Show only this topic.
    topic: Option<String>,
    /// Namespace of the topics.
    #[arg(long, value_name = "NAMESPACE", default_value = "mailbox", value_parser = value::namespaces())]
    namespace: NamespaceName,
    /// Maximum number of topics to list.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Refresh the list at this interval until interrupted (2s if no interval is given).
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, num_args = 0..=1, require_equals = true,
        default_missing_value = "2s")]
    watch: Option<Duration>,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    loop {
        let topics = list_topics(arguments, &client).await?;
        if arguments.watch.is_some() && output.format() == Format::Table {
            output::clear_screen(output)?;
        }
        if topics.is_empty() {
            output::note("no topic has messages that are not Done");
        }
        output.write_list(&topics, || lines(&topics, output))?;
        match arguments.watch {
            Some(interval) => tokio::time::sleep(interval).await,
            None => return Ok(()),
        }
    }
}

async fn list_topics(arguments: &Arguments, client: &Client) -> Result<Vec<TopicDetails>, CliError> {
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let namespace = Some(arguments.namespace);
    if let Some(topic) = &arguments.topic {
        let list =
            ListTopicsRequest { namespace, topic: Some(topic.clone()), ..ListTopicsRequest::default() };
        return Ok(client.topics(&list).await?.topics);
    }
    let (mut topics, mut after) = (Vec::new(), None);
    let mut progress = Progress::new();
    loop {
        let remaining = u32::try_from(limit - topics.len()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let list = ListTopicsRequest { namespace, topic: None, limit: Some(remaining), after };
        let ListTopicsResponse { topics: page, next } = client.topics(&list).await?;
        topics.extend(page);
        if next.is_none() {
            return Ok(topics);
        }
        if topics.len() >= limit {
            topics.truncate(limit);
            drop(progress);
            output::note("there may be more: raise --limit");
            return Ok(topics);
        }
        progress.show(&format!("{} topics so far", topics.len()));
        after = next;
    }
}

fn lines(topics: &[TopicDetails], output: Output) -> Vec<String> {
    // Most of the time no topic is paused, and the column would only take space.
    let with_paused = topics.iter().any(|topic| topic.paused.is_some());
    let rows: Vec<_> = topics.iter().map(|topic| row(topic, with_paused)).collect();
    let mut head =
        vec!["topic", "ready", "waiting", "in flight", "dead", "oldest", "in/min", "out/min", "held by"];
    if with_paused {
        head.insert(1, "paused");
    }
    table(output, &head, &rows)
}

fn row(topic: &TopicDetails, with_paused: bool) -> Vec<Cell> {
    let rate = |rate: Option<u64>| Cell::from(rate.map_or_else(|| "?".to_owned(), |rate| rate.to_string()));
    let dead = if topic.dead > 0 { Tone::Bad } else { Tone::Plain };
    let mut cells = vec![Cell::from(&topic.topic)];
    if with_paused {
        // The commands that are paused: the longer words do not fit into 80 columns.
        let paused = topic.paused.map(|paused| match paused {
            PauseName::Sending => "send",
            PauseName::Receiving => "recv",
            PauseName::Both => "both",
        });
        cells.push(Cell::toned(Tone::Bad, paused.unwrap_or_default()));
    }
    let more = if topic.estimated { "+" } else { "" };
    cells.extend(
        [topic.ready, topic.waiting, topic.in_flight].map(|number| Cell::from(format!("{number}{more}"))),
    );
    cells.push(Cell::toned(dead, format!("{}{more}", topic.dead)));
    cells.push(Cell::from(topic.oldest_age_ms.map(quantity::span).unwrap_or_default()));
    cells.extend([rate(topic.accepted_last_minute), rate(topic.delivered_last_minute)]);
    cells.push(Cell::from(topic.workers.join(", ")));
    cells
}

#[cfg(test)]
mod tests {
    use oncebox_client::wire::operator::TopicDetails;

    use super::lines;
    use crate::output::{Color, Format, Output};

    #[test]
    fn a_topic_fits_on_one_line() {
        let topic = TopicDetails {
            topic: "a-topic-with-a-name-that-is-longer-than-the-column-that-shows-it".to_owned(),
            ready: 10_000,
            waiting: 12,
            in_flight: 8_192,
            workers: ["billing-1", "billing-2"].map(str::to_owned).to_vec(),
            dead: 3,
            oldest_at: Some("2026-11-16T05:56:04.000Z".to_owned()),
            oldest_age_ms: Some(185_000),
            accepted_last_minute: Some(120_000),
            delivered_last_minute: None,
            paused: None,
            estimated: true,
        };
        let lines = lines(&[topic], Output::new(Some(Format::Table), Color::Never));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        let cells: Vec<_> = lines[1].split_whitespace().skip(1).collect();
        assert_eq!(cells, ["10000+", "12+", "8192+", "3+", "3m", "120000", "?", "billing-…"]);
    }
}
