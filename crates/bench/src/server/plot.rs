//! The chart: one bar per peer and load, as SVG for light and dark backgrounds.

use std::fmt::Write;

use super::job::Peer;

const WIDTH: f64 = 720.0;
const LABEL_WIDTH: f64 = 110.0;
const VALUE_WIDTH: f64 = 90.0;
const BAR_HEIGHT: f64 = 18.0;
const STYLE: &str = include_str!("plot/style.css");

/// Bars that share a scale.
pub(super) struct Group {
    pub(super) title: &'static str,
    /// Lifecycles per second.
    pub(super) bars: Vec<(Peer, f64)>,
}

/// The chart of all groups, one below the other.
pub(super) fn svg(groups: &[Group], method: &str) -> String {
    let (mut body, mut y) = (String::new(), 74.0);
    for group in groups {
        text(&mut body, 16.0, y, "group", group.title);
        y += 10.0;
        let most = group.bars.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
        for (peer, rate) in &group.bars {
            let width = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) * rate / most;
            let class = if *peer == Peer::Oncebox { "ours" } else { "rival" };
            let middle = y + BAR_HEIGHT * 0.7;
            text(&mut body, 16.0, middle, "label", &peer.to_string());
            let bar = writeln!(
                body,
                r#"<rect class="{class}" x="{LABEL_WIDTH}" y="{y:.0}" width="{width:.1}" height="{:.0}"/>"#,
                BAR_HEIGHT - 4.0
            );
            bar.expect("writing to a string cannot fail");
            text(&mut body, LABEL_WIDTH + width + 6.0, middle, "label", &grouped(*rate));
            y += BAR_HEIGHT;
        }
        y += 26.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {y:.0}\" role=\"img\">\n<style>\n{STYLE}</style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"16\" y=\"28\">Messages sent, received and acknowledged per second</text>\n\
         <text class=\"method\" x=\"16\" y=\"46\">{method}</text>\n{body}</svg>\n"
    )
}

fn text(body: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let written = writeln!(body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#);
    written.expect("writing to a string cannot fail");
}

/// Formats a whole number with thousands separators.
fn grouped(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Group, Peer, grouped, svg};

    #[test]
    fn the_fastest_of_a_group_has_the_longest_bar() {
        let bars = vec![(Peer::Oncebox, 1_000.0), (Peer::Redis, 500.0)];
        let chart = svg(&[Group { title: "one", bars }], "method");
        assert!(chart.contains(r#"width="520.0""#) && chart.contains(r#"width="260.0""#), "{chart}");
        assert_eq!((&*grouped(999.0), &*grouped(1_234_567.0)), ("999", "1,234,567"));
    }
}
