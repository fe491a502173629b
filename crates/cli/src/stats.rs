//! `oncebox stats`: server and store statistics.

use oncebox_client::Client;
use oncebox_client::wire::operator::{NamespaceCounts, StatsResponse};

use crate::error::CliError;
use crate::output::{Cell, Output, Tone, pairs, table};
use crate::{text, value};

pub(crate) async fn run(client: Client, output: Output) -> Result<(), CliError> {
    let stats = client.stats().await?;
    output.write_one(&stats, || report(&stats, output))
}

fn report(stats: &StatsResponse, output: Output) -> Vec<String> {
    let persistence = match (stats.amnesia, stats.dlq_profile.as_str()) {
        (true, _) => "none (amnesia)",
        (false, "ephemeral") => "none (in memory)",
        (false, _) => "durable",
    };
    let mut lines = pairs(
        output,
        &[
            ("version", stats.version.clone()),
            ("uptime", uptime(stats.uptime_seconds)),
            ("store", text::escape(&stats.store)),
            ("persistence", persistence.to_owned()),
            ("profile", stats.profile.clone()),
            ("dead letters", stats.dlq_profile.clone()),
            ("auth", stats.auth.clone()),
        ],
    );
    let counts: Vec<_> = stats.namespaces.iter().map(counts).collect();
    let bounds = stats.bounds.iter().map(|bound| {
        let share = bound.used.saturating_mul(100) / bound.limit.max(1);
        let tone = if share >= 80 { Tone::Warning } else { Tone::Plain };
        let show = |number: u64| {
            if bound.name.ends_with("_bytes") { output.bytes(number) } else { number.to_string() }
        };
        let numbers = [show(bound.used), show(bound.limit)].map(Cell::from);
        [Cell::from(&bound.name)]
            .into_iter()
            .chain(numbers)
            .chain([Cell::toned(tone, format!("{share} %"))])
            .collect()
    });
    let bounds: Vec<Vec<Cell>> = bounds.collect();
    let head = ["namespace", "seen", "ready", "waiting", "in flight", "done", "dead", ""];
    for section in [table(output, &head, &counts), table(output, &["bound", "used", "limit", ""], &bounds)] {
        if !section.is_empty() {
            lines.push(String::new());
            lines.extend(section);
        }
    }
    if !stats.findings.is_empty() || !stats.unknown.is_empty() {
        lines.push(String::new());
    }
    lines.extend(stats.unknown.iter().map(|name| {
        let text = format!("{name}: unknown, because the store does not answer");
        output.paint(Tone::Bad, &text::escape(&text))
    }));
    lines.extend(stats.findings.iter().map(|finding| {
        let tone = if finding.level == "unhealthy" { Tone::Bad } else { Tone::Warning };
        let text = format!("{}: {}: {}", finding.level, finding.subject, finding.text);
        output.paint(tone, &text::escape(&text))
    }));
    lines
}

fn counts(namespace: &NamespaceCounts) -> Vec<Cell> {
    let counts = &namespace.counts;
    let numbers = [counts.seen, counts.ready, counts.waiting, counts.in_flight, counts.done];
    let dead = if counts.dead > 0 { Tone::Bad } else { Tone::Plain };
    let mut cells = vec![Cell::from(value::wire_name(namespace.namespace))];
    cells.extend(numbers.map(|number| Cell::from(number.to_string())));
    cells.push(Cell::toned(dead, counts.dead.to_string()));
    cells.push(Cell::toned(Tone::Dim, if counts.estimated { "estimated" } else { "" }));
    cells
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::{report, uptime};
    use crate::output::{Color, Format, Output};

    #[test]
    fn uptimes_have_at_most_two_units() {
        let uptimes = [59, 61, 3_700, 90_000].map(uptime);
        assert_eq!(uptimes, ["59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn the_report_says_what_survives_a_restart() {
        for (amnesia, profile, shown) in [
            (true, "ephemeral", "none (amnesia)"),
            (false, "ephemeral", "none (in memory)"),
            (false, "durable", "durable"),
        ] {
            let text = format!(
                r#"{{"version":"1","uptime_seconds":5,"store":"s","profile":"p","amnesia":{amnesia},"dlq_profile":"{profile}",
                "auth":"none","bounds":[],"namespaces":[],"unknown":[],"findings":[]}}"#
            );
            let output = Output::new(Some(Format::Table), Color::Never);
            let lines = report(&serde_json::from_str(&text).unwrap(), output);
            assert!(lines.contains(&format!("persistence   {shown}")), "{lines:#?}");
        }
    }

    #[test]
    fn the_report_shows_counts_bounds_and_findings() {
        let text = r#"{"version":"1","uptime_seconds":5,"store":"memory:","profile":"micronode","amnesia":true,
            "dlq_profile":"ephemeral","auth":"none","bounds":[{"name":"keys","used":90,"limit":100}],
            "namespaces":[{"namespace":"mailbox","counts":{"seen":0,"ready":1,"waiting":2,"in_flight":3,"done":4,"dead":5,
            "estimated":true}}],"unknown":["namespaces"],"findings":[{"level":"warning","subject":"keys","text":"nearly full: make space"}]}"#;
        let lines =
            report(&serde_json::from_str(text).unwrap(), Output::new(Some(Format::Table), Color::Never));
        for line in [
            "persistence   none (amnesia)",
            "mailbox    0     1      2        3          4     5     estimated",
            "keys   90    100    90 %",
            "namespaces: unknown, because the store does not answer",
            "warning: keys: nearly full: make space",
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line:?} in {lines:#?}");
        }
    }
}
