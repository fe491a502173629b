//! The command line of Oncebox. Each command is a file.
//!
//! Two programs run it, which differ in their allocator alone: `oncebox`, and `oncebox-amnesia`, which overwrites memory
//! before it is freed. `oncebox serve` becomes the second one when the settings ask for amnesia.

mod ack;
mod completions;
mod config;
mod demo;
mod dlq;
mod explain;
mod extend;
mod ledger;
mod messages;
mod nack;
mod recv;
mod schema;
mod send;
mod serve;
mod stats;
mod store;
mod topics;

mod duration;
mod life;
mod message;
mod output;
mod quantity;
mod redrive;
mod remote;
mod settings;
mod settle;
mod terminal;
mod terms;
mod text;
mod trouble;
mod word;

#[cfg(test)]
mod reference;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use oncebox_client::Client;

use output::Output;
use remote::Global;
use terms::Terms;
use trouble::{EXIT_CODES, Trouble};

/// What the allocator of this program does with memory that is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// It stays as it is until something else is written there.
    Kept,
    /// It is overwritten with zeros.
    Wiped,
}

/// A durable, idempotent inbox: it takes in each message once, and gets it handled.
#[derive(Parser)]
#[command(name = "oncebox", version)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows in a few seconds what a server does: duplicates, retries, a crash, a kill, dead letters.
    Demo(demo::Arguments),
    Serve(serve::Arguments),
    Config(config::Arguments),
    Send(send::Arguments),
    Recv(recv::Arguments),
    Ack(ack::Arguments),
    Nack(nack::Arguments),
    Extend(extend::Arguments),
    Dlq(dlq::Arguments),
    Ledger(ledger::Arguments),
    Messages(messages::Arguments),
    Explain(explain::Arguments),
    /// Tells how the server and its store stand.
    Stats,
    Topics(topics::Arguments),
    Store(store::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
}

/// The whole command line; every command's help tells the exit codes.
fn command() -> clap::Command {
    fn with_exit_codes(command: clap::Command) -> clap::Command {
        command.after_help(EXIT_CODES).mut_subcommands(with_exit_codes)
    }
    with_exit_codes(Arguments::command().max_term_width(100))
}

/// Runs the command line of this process.
pub fn main(freed: Freed) -> ExitCode {
    let matches = command().get_matches();
    let Arguments { global, command } =
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(&global, command, freed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            if let Some(text) = trouble.text() {
                output::note(text);
            }
            trouble.exit_code()
        }
    }
}

fn run(global: &Global, command: Command, freed: Freed) -> Result<(), Trouble> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments, freed),
        Command::Config(arguments) => config::run(&arguments, global.output()),
        Command::Store(arguments) => store::run(&arguments, global.output()),
        Command::Schema(arguments) => schema::run(&arguments, global.output()),
        Command::Completions(arguments) => completions::run(&arguments, self::command()),
        Command::Send(arguments) => {
            let message = arguments.message()?;
            with_server(global, terms::SEND, async |client, output| send::run(message, client, output).await)
        }
        Command::Recv(arguments) => with_server(global, terms::RECV, async |client, output| {
            recv::run(&arguments, client, output).await
        }),
        Command::Ack(arguments) => with_server(global, terms::SETTLE, async |client, output| {
            ack::run(&arguments, client, output).await
        }),
        Command::Nack(arguments) => with_server(global, terms::SETTLE, async |client, output| {
            nack::run(&arguments, client, output).await
        }),
        Command::Extend(arguments) => with_server(global, terms::SETTLE, async |client, output| {
            extend::run(&arguments, client, output).await
        }),
        Command::Dlq(arguments) => with_server(global, terms::OPERATOR, async |client, output| {
            dlq::run(&arguments, client, output).await
        }),
        Command::Ledger(arguments) => with_server(global, terms::LEDGER, async |client, output| {
            ledger::run(&arguments, client, output).await
        }),
        Command::Messages(arguments) => with_server(global, terms::OPERATOR, async |client, output| {
            messages::run(&arguments, client, output).await
        }),
        Command::Explain(arguments) => with_server(global, terms::EXPLAIN, async |client, output| {
            explain::run(&arguments, client, output).await
        }),
        Command::Stats => with_server(global, terms::NONE, stats::run),
        Command::Topics(arguments) => with_server(global, terms::OPERATOR, async |client, output| {
            topics::run(&arguments, client, output).await
        }),
    }
}

fn with_server(
    global: &Global,
    terms: &Terms,
    act: impl AsyncFnOnce(Client, Output) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let (client, output) = (global.client()?, global.output());
    life::of_its_own(act(client, output)).map_err(|trouble| trouble.in_terms_of(terms))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_fit_together() {
        super::command().debug_assert();
    }
}
