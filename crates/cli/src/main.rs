//! The command line of Oncebox. Each command is a file.

mod demo;
mod trouble;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0    it went well
  1    it failed, or a check did not hold: the last line on stderr says why and what to do
  2    the command line is wrong
  130  it was interrupted";

/// A durable, idempotent inbox: it takes in each message once, and gets it handled.
#[derive(Parser)]
#[command(name = "oncebox", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows in a few seconds what an inbox does: duplicates, retries, a crash, dead letters.
    #[command(after_help = EXIT_CODES)]
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let ended = match command {
        Command::Demo(arguments) => demo::run(&arguments),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            if let Some(text) = trouble.text() {
                eprintln!("oncebox: {text}");
            }
            trouble.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_fit_together() {
        super::Arguments::command().debug_assert();
    }
}
