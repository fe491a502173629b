//! What the reader sees: a table that is redrawn in place on a terminal, plain lines anywhere else.

mod table;

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Stdout, Write};
use std::time::Duration;

use super::story::{Line, Story, Tone};
use crate::terminal::{self, cut, wrapped};

/// Lines of the story that stay below the table.
const TICKER_LINES: usize = 6;
/// The lines around the rows of the table.
const FRAME_LINES: usize = TICKER_LINES + 7;
/// The height of a terminal that does not tell.
const HEIGHT: u16 = 24;
/// No line is wider, however wide the terminal is.
const WIDTH_MAX: usize = 100;

/// No line is wider.
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
    /// Lines of the frame that stands there.
    drawn: usize,
    ticker: VecDeque<String>,
}

impl Screen {
    /// A live screen if there is a terminal that may have colours, plain lines if not.
    pub(super) fn choose(plain: bool) -> io::Result<Self> {
        let mut out = io::stdout();
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if plain || !colours || !cfg!(unix) || !out.is_terminal() {
            return Ok(Self::Plain(out));
        }
        // Neither a cursor that jumps about, nor lines that wrap.
        out.write_all(b"\x1b[?25l\x1b[?7l")?;
        Ok(Self::Live(Live { out, drawn: 0, ticker: VecDeque::new() }))
    }

    /// Tells what happened.
    pub(super) fn tell(&mut self, story: &Story, lines: &[Line]) -> io::Result<()> {
        for line in lines {
            let text = written(story, line);
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

    /// Shows how everything stands.
    pub(super) fn draw(&mut self, story: &Story, now: Duration) -> io::Result<()> {
        let Self::Live(live) = self else { return Ok(()) };
        let room = height().saturating_sub(FRAME_LINES).max(4);
        let mut lines = table::lines(story, now, room);
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

    /// Closing words, below everything.
    pub(super) fn close(&mut self, lines: &[(Tone, String)]) -> io::Result<()> {
        for (tone, text) in lines {
            // What follows a first line is indented by two more than it.
            let indent = text.len() - text.trim_start().len();
            let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
            for line in wrapped(text.trim_start(), width(), &first, &rest) {
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
        // The terminal as it was; one that has gone needs nothing.
        let _ = self.out.write_all(b"\x1b[?7h\x1b[?25h");
        let _ = self.out.flush();
    }
}

/// A line of the story as text.
fn written(story: &Story, line: &Line) -> String {
    let Line { at, who, what, part, detail, .. } = line;
    let part = part.map(|part| &story.world.script.parts[part]);
    let name = part.map(|part| format!("{:<7} {:<13} ", part.source, part.id)).unwrap_or_default();
    let text = format!("{:>6.2} s  {who:<8}  {what:<11}  {name}{detail}", at.as_secs_f64());
    cut(text.trim_end(), width())
}

fn paint(tone: Tone, text: &str) -> String {
    let colour = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Quiet => 2,
        Tone::Good => 32,
        Tone::Odd => 33,
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
