//! The output of the demo: a table that is redrawn in place on a terminal, plain lines anywhere else.

mod table;

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Stdout, Write};
use std::time::Duration;

use super::tracker::{Line, Tone, Tracker};
use crate::terminal::{self, truncate, wrap};

/// The latest event lines, shown below the table.
const TICKER_LINES: usize = 6;
/// Lines of the frame other than table rows.
const FRAME_LINES: usize = TICKER_LINES + 7;
/// The height of a terminal whose size is unknown.
const HEIGHT: u16 = 24;
const WIDTH_MAX: usize = 100;

/// Maximum width of a line: the terminal's, but at most [`WIDTH_MAX`].
pub(super) fn width() -> usize {
    terminal::columns().min(WIDTH_MAX)
}

pub(super) enum Screen {
    Plain(Stdout),
    Live(Live),
}

/// A frame on a terminal.
pub(super) struct Live {
    out: Stdout,
    /// Number of lines of the frame that is on the screen.
    drawn: usize,
    ticker: VecDeque<String>,
}

impl Screen {
    /// A live screen if stdout is a terminal and colours are allowed, otherwise plain lines.
    pub(super) fn choose(plain: bool) -> io::Result<Self> {
        let mut out = io::stdout();
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if plain || !colours || !cfg!(unix) || !out.is_terminal() {
            return Ok(Self::Plain(out));
        }
        // Hides the cursor and disables line wrapping.
        out.write_all(b"\x1b[?25l\x1b[?7l")?;
        Ok(Self::Live(Live { out, drawn: 0, ticker: VecDeque::new() }))
    }

    /// Prints event lines; on a live screen they appear with the next frame.
    pub(super) fn print(&mut self, tracker: &Tracker, lines: &[Line]) -> io::Result<()> {
        for line in lines {
            let text = format_line(tracker, line);
            match self {
                Self::Plain(out) => writeln!(out, "{text}")?,
                Self::Live(live) => {
                    live.ticker.push_back(paint(line.tone, &text));
                    if live.ticker.len() > TICKER_LINES {
                        live.ticker.pop_front();
                    }
                }
            }
        }
        Ok(())
    }

    /// Redraws the live screen; does nothing for plain output.
    pub(super) fn draw(&mut self, tracker: &Tracker, now: Duration) -> io::Result<()> {
        let Self::Live(live) = self else { return Ok(()) };
        let rows_max = height().saturating_sub(FRAME_LINES).max(4);
        let mut lines = table::lines(tracker, now, rows_max);
        lines.push(String::new());
        lines.extend(live.ticker.iter().cloned());
        let mut frame = if live.drawn > 0 { format!("\x1b[{}A\r", live.drawn) } else { String::new() };
        for line in &lines {
            frame.push_str(line);
            frame.push_str("\x1b[K\n");
        }
        frame.push_str("\x1b[J");
        live.drawn = lines.len();
        live.out.write_all(frame.as_bytes())?;
        live.out.flush()
    }

    /// Prints lines of the summary below everything else.
    pub(super) fn print_summary(&mut self, lines: &[(Tone, String)]) -> io::Result<()> {
        for (tone, text) in lines {
            // Continuation lines are indented by two more columns.
            let indent = text.len() - text.trim_start().len();
            let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
            for line in wrap(text.trim_start(), width(), &first, &rest) {
                match self {
                    Self::Plain(out) => writeln!(out, "{}", line.trim_end())?,
                    Self::Live(live) => writeln!(live.out, "{}", paint(*tone, line.trim_end()))?,
                }
            }
        }
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Restores the terminal; an error means that it is gone.
        let _ = self.out.write_all(b"\x1b[?7h\x1b[?25h");
        let _ = self.out.flush();
    }
}

fn format_line(tracker: &Tracker, line: &Line) -> String {
    let Line { at, actor, action, index, detail, .. } = line;
    let planned = index.map(|index| &tracker.context.scenario.messages[index]);
    let name =
        planned.map(|planned| format!("{:<7} {:<13} ", planned.source, planned.id)).unwrap_or_default();
    let text = format!("{:>6.2} s  {actor:<8}  {action:<11}  {name}{detail}", at.as_secs_f64());
    truncate(text.trim_end(), width())
}

fn paint(tone: Tone, text: &str) -> String {
    let colour = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Dim => 2,
        Tone::Good => 32,
        Tone::Warning => 33,
        Tone::Bad => 31,
    };
    format!("\x1b[{colour}m{text}\x1b[0m")
}

#[cfg(unix)]
fn height() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).map(|size| size.ws_row);
    usize::from(size.ok().filter(|rows| *rows > 0).unwrap_or(HEIGHT))
}

#[cfg(not(unix))]
fn height() -> usize {
    usize::from(HEIGHT)
}
