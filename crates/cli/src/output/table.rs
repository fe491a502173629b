//! Human-readable tables.

use super::Output;
use crate::terminal::{truncate, truncate_middle};
use crate::text;

/// Maximum width of a cell other than the last one of a row.
const CELL_WIDTH_MAX: usize = 48;
/// Maximum width of the last cell of a row; a receipt fits.
const LAST_WIDTH_MAX: usize = 96;
/// Minimum width of a truncated cell.
const CUT_WIDTH_MIN: usize = 8;
/// Spaces between two columns.
const GAP: usize = 2;

/// The meaning of a text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
}

impl Tone {
    pub(super) fn paint(self, text: &str) -> String {
        let colour = match self {
            Self::Plain => return text.to_owned(),
            Self::Dim => 2,
            Self::Good => 32,
            Self::Warning => 33,
            Self::Bad => 31,
        };
        format!("\x1b[{colour}m{text}\x1b[0m")
    }
}

/// A cell of a table, escaped to fit on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    /// Never truncated: an id that is copied into the next command is useless in part.
    whole: bool,
}

impl Cell {
    pub(crate) fn toned(tone: Tone, text: impl AsRef<str>) -> Self {
        Self { text: text::escape(text.as_ref()), tone, whole: false }
    }

    /// Returns a copy that is never truncated.
    pub(crate) fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Plain, text)
    }
}

/// The lines of a table; empty if there are no rows. The widest columns are truncated until the table fits the
/// terminal.
pub(crate) fn table(output: Output, head: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head: Vec<_> = head.iter().map(|name| Cell::toned(Tone::Dim, name)).collect();
    let widths = widths(output, &head, rows);
    [&head].into_iter().chain(rows).map(|row| line(output, &widths, row)).collect()
}

/// The width of each column.
fn widths(output: Output, head: &[Cell], rows: &[Vec<Cell>]) -> Vec<usize> {
    let mut widths: Vec<_> = head.iter().map(Cell::width).collect();
    let mut narrowest = widths.clone();
    for row in rows {
        for (column, cell) in row.iter().enumerate().take(widths.len()) {
            let width = cell.width();
            widths[column] = widths[column].max(width);
            narrowest[column] =
                narrowest[column].max(if cell.whole { width } else { width.min(CUT_WIDTH_MIN) });
        }
    }
    let Some(columns) = output.columns() else { return widths };
    let last = widths.len().saturating_sub(1);
    for (column, width) in widths.iter_mut().enumerate() {
        let max = if column == last { LAST_WIDTH_MAX } else { CELL_WIDTH_MAX };
        *width = (*width).min(max).max(narrowest[column]);
    }
    let mut over = (widths.iter().sum::<usize>() + GAP * last).saturating_sub(columns);
    while over > 0 {
        let wider = (0..widths.len()).filter(|column| widths[*column] > narrowest[*column]);
        let Some(widest) = wider.max_by_key(|column| widths[*column]) else { break };
        widths[widest] -= 1;
        over -= 1;
    }
    widths
}

fn line(output: Output, widths: &[usize], row: &[Cell]) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
        let last = column + 1 == widths.len();
        let text = if last { truncate(&cell.text, *width) } else { truncate_middle(&cell.text, *width) };
        let padding = (width + GAP).saturating_sub(text.chars().count());
        line.push_str(&output.paint(cell.tone, &text));
        line.push_str(&" ".repeat(padding));
    }
    line.trim_end().to_owned()
}

/// Name and value pairs, one per line. Continuation lines of a value are indented.
pub(crate) fn pairs(output: Output, pairs: &[(&str, String)]) -> Vec<String> {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let indent = format!("\n{}", " ".repeat(width + 2));
    let line = |(name, value): &(&str, String)| {
        let name = output.paint(Tone::Dim, &format!("{name:<width$}"));
        format!("{name}  {}", text::escape_multiline(value).replace('\n', &indent))
    };
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cell, Tone, pairs, table};
    use crate::output::{Color, Detail, Format, Output};

    fn output(color: Color) -> Output {
        Output::new(Some(Format::Table), color)
    }

    #[test]
    fn columns_are_aligned() {
        let rows =
            [vec![Cell::from("a"), Cell::from("long\nname")], vec![Cell::from("wider"), Cell::from("b")]];
        let lines = table(output(Color::Never), &["id", "name"], &rows);
        assert_eq!(lines, ["id     name", "a      long\\nname", "wider  b"]);
        assert_eq!(table(output(Color::Never), &["id"], &[]), [""; 0]);
    }

    #[test]
    fn colours_do_not_affect_alignment() {
        let rows = [vec![Cell::toned(Tone::Bad, "x"), Cell::from("y")]];
        let lines = table(output(Color::Always), &["id", "name"], &rows);
        assert_eq!(lines[1], "\x1b[31mx\x1b[0m   y");
    }

    #[test]
    fn a_wide_table_is_truncated_but_ids_stay_whole() {
        let (id, long) =
            ("01KAB3DXJQ8ZP5R8S2T4V6W8Y0", "a text that is much longer than its column can ever be here");
        let row = || vec![Cell::from(id).whole(), Cell::from(long), Cell::from(long)];
        let lines = table(output(Color::Never), &["id", "first", "second"], &[row(), row()]);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(
            lines[1].starts_with(id) && lines[1].contains("a text") && lines[1].ends_with('…'),
            "{lines:#?}"
        );
        let full = output(Color::Never).with_detail(Detail::Full);
        let lines = table(full, &["id", "first", "second"], &[row()]);
        assert_eq!(lines[1], format!("{id}  {long}  {long}"));
    }

    #[test]
    fn continuation_lines_are_indented() {
        let lines = pairs(output(Color::Never), &[("a", "1\n2\u{1b}".to_owned()), ("long", "3".to_owned())]);
        assert_eq!(lines, ["a     1\n      2\\u{1b}", "long  3"]);
    }
}
