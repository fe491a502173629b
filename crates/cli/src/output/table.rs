//! Tables for people.

use super::Output;
use crate::text;

/// No cell is wider, but for the last of a row.
const CELL_WIDTH_MAX: usize = 48;
/// The last cell of a row is not wider: a receipt fits.
const LAST_WIDTH_MAX: usize = 96;

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Quiet,
    Good,
    Odd,
    Bad,
}

impl Tone {
    pub(super) fn paint(self, text: &str) -> String {
        let colour = match self {
            Self::Plain => return text.to_owned(),
            Self::Quiet => 2,
            Self::Good => 32,
            Self::Odd => 33,
            Self::Bad => 31,
        };
        format!("\x1b[{colour}m{text}\x1b[0m")
    }
}

/// A text in a table; whatever it holds, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn toned(tone: Tone, text: impl AsRef<str>) -> Self {
        Self { text: text::plain(text.as_ref()), tone }
    }

    fn short(&self, width: usize) -> String {
        if self.text.chars().count() <= width {
            return self.text.clone();
        }
        self.text.chars().take(width - 1).chain(['…']).collect()
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(Tone::Plain, text)
    }
}

/// Rows below a head, in columns; none if there are no rows.
pub(crate) fn table(output: Output, head: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head: Vec<_> = head.iter().map(|name| Cell::toned(Tone::Quiet, name)).collect();
    let mut widths = vec![0; head.len()];
    for row in rows.iter().chain([&head]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.short(CELL_WIDTH_MAX).chars().count());
        }
    }
    [&head].into_iter().chain(rows).map(|row| line(output, &widths, row)).collect()
}

fn line(output: Output, widths: &[usize], row: &[Cell]) -> String {
    let mut line = String::new();
    for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
        let last = place + 1 == row.len();
        let text = cell.short(if last { LAST_WIDTH_MAX } else { CELL_WIDTH_MAX });
        let room = if last { 0 } else { width + 2 - text.chars().count() };
        line.push_str(&output.paint(cell.tone, &text));
        line.push_str(&" ".repeat(room));
    }
    line.trim_end().to_owned()
}

/// Names and what they stand for, below each other. Further lines of a value are indented.
pub(crate) fn pairs(output: Output, pairs: &[(&str, String)]) -> Vec<String> {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let indent = format!("\n{}", " ".repeat(width + 2));
    let line = |(name, value): &(&str, String)| {
        let name = output.paint(Tone::Quiet, &format!("{name:<width$}"));
        format!("{name}  {}", text::lines(value).replace('\n', &indent))
    };
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cell, Tone, pairs, table};
    use crate::output::{Color, Format, Output};

    fn output(color: Color) -> Output {
        Output::new(Some(Format::Table), color)
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows =
            [vec![Cell::from("a"), Cell::from("long\nname")], vec![Cell::from("wider"), Cell::from("b")]];
        let lines = table(output(Color::Never), &["id", "name"], &rows);
        assert_eq!(lines, ["id     name", "a      long\\nname", "wider  b"]);
        assert_eq!(table(output(Color::Never), &["id"], &[]), [""; 0]);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let rows = [vec![Cell::toned(Tone::Bad, "x"), Cell::from("y")]];
        let lines = table(output(Color::Always), &["id", "name"], &rows);
        assert_eq!(lines[1], "\x1b[31mx\x1b[0m   y");
    }

    #[test]
    fn further_lines_are_indented() {
        let lines = pairs(output(Color::Never), &[("a", "1\n2\u{1b}".to_owned()), ("long", "3".to_owned())]);
        assert_eq!(lines, ["a     1\n      2\\u{1b}", "long  3"]);
    }
}
