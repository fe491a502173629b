//! Tables in markdown files that people write and we read.

/// The rows of every table with this header, with their lines; other tables and prose are for people.
pub(super) fn rows<'t>(text: &'t str, header: &[&str]) -> Vec<(usize, Vec<&'t str>)> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let cells = cells(line);
        if cells.is_empty() || cells == header {
            inside = cells == header;
        } else if inside && !cells.iter().all(|cell| is_rule(cell)) {
            rows.push((index + 1, cells));
        }
    }
    rows
}

/// Whether a cell belongs to the line below a header.
fn is_rule(cell: &str) -> bool {
    cell.contains('-') && cell.trim_matches(['-', ':']).is_empty()
}

/// The cells of a table's line, none for any other line.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map(|inner| inner.split('|').map(str::trim).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_with_the_header_are_read() {
        let text = "# Title\n\n| a | b |\n|---|:-:|\n| 1 | |\n\n| c | d |\n|---|---|\n| 2 | 3 |\n\n| a | b |\n|---|---|\n| 4 | 5 |\n";
        assert_eq!(rows(text, &["a", "b"]), [(5, vec!["1", ""]), (13, vec!["4", "5"])]);
    }
}
