//! The command-line interface of Oncebox. Each command has its own file.
//!
//! Two binaries share it and differ only in their allocator: `oncebox`, and `oncebox-amnesia`, which overwrites memory
//! before it is freed. `oncebox serve` executes the second one when amnesia is configured.

mod ack;
mod cap;
mod completions;
mod config;
mod demo;
mod dlq;
mod explain;
mod extend;
mod init;
mod ledger;
mod login;
mod messages;
mod nack;
mod pause;
mod recv;
mod schema;
mod send;
mod serve;
mod stats;
mod store;
mod topics;

mod duration;
mod error;
mod flag_names;
mod message;
mod output;
mod quantity;
mod redrive;
mod remote;
mod runtime;
mod settings;
mod settle;
mod terminal;
mod text;
mod token_file;
mod value;

#[cfg(test)]
mod reference;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use oncebox_client::Client;

use error::{CliError, EXIT_CODES};
use flag_names::FlagNames;
use output::Output;
use remote::GlobalOptions;

/// What the allocator of this binary does with freed memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreedMemory {
    /// Leaves it as it is until it is reused.
    Kept,
    /// Overwrites it with zeros.
    Zeroed,
}

/// A durable, idempotent inbox: accepts each message once and makes sure that it is processed.
#[derive(Parser)]
#[command(name = "oncebox", version)]
struct Arguments {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show duplicates, retries, a crash, a killed server and dead letters in a few seconds.
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
    /// Show server and store statistics.
    Stats,
    Topics(topics::Arguments),
    Pause(pause::PauseArguments),
    Resume(pause::ResumeArguments),
    Init(init::Arguments),
    Cap(cap::Arguments),
    Login(login::Arguments),
    Store(store::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
}

/// The whole command line; the help of every command lists the exit codes.
fn command() -> clap::Command {
    fn with_exit_codes(command: clap::Command) -> clap::Command {
        command.after_help(EXIT_CODES).mut_subcommands(with_exit_codes)
    }
    with_exit_codes(Arguments::command().max_term_width(100))
}

/// Runs the command line of this process.
pub fn main(freed: FreedMemory) -> ExitCode {
    let matches = command().get_matches();
    let Arguments { global, command } =
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(&global, command, freed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(text) = error.text() {
                output::note(text);
            }
            error.exit_code()
        }
    }
}

fn run(global: &GlobalOptions, command: Command, freed: FreedMemory) -> Result<(), CliError> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments, freed),
        Command::Config(arguments) => config::run(&arguments, global.output()),
        Command::Init(arguments) => init::run(&arguments),
        Command::Cap(arguments) => cap::run(&arguments, global),
        Command::Login(arguments) => login::run(&arguments, global),
        Command::Store(arguments) => store::run(&arguments, global.output()),
        Command::Schema(arguments) => schema::run(&arguments, global.output()),
        Command::Completions(arguments) => completions::run(&arguments, self::command()),
        Command::Send(arguments) => {
            let message = arguments.message()?;
            with_server(global, flag_names::SEND, async |client, output| {
                send::run(message, client, output).await
            })
        }
        Command::Recv(arguments) => with_server(global, flag_names::RECV, async |client, output| {
            recv::run(&arguments, client, output).await
        }),
        Command::Ack(arguments) => with_server(global, flag_names::SETTLE, async |client, output| {
            ack::run(&arguments, client, output).await
        }),
        Command::Nack(arguments) => with_server(global, flag_names::SETTLE, async |client, output| {
            nack::run(&arguments, client, output).await
        }),
        Command::Extend(arguments) => with_server(global, flag_names::SETTLE, async |client, output| {
            extend::run(&arguments, client, output).await
        }),
        Command::Dlq(arguments) => with_server(global, flag_names::OPERATOR, async |client, output| {
            dlq::run(&arguments, client, output).await
        }),
        Command::Ledger(arguments) => with_server(global, flag_names::LEDGER, async |client, output| {
            ledger::run(&arguments, client, output).await
        }),
        Command::Messages(arguments) => with_server(global, flag_names::OPERATOR, async |client, output| {
            messages::run(&arguments, client, output).await
        }),
        Command::Explain(arguments) => with_server(global, flag_names::EXPLAIN, async |client, output| {
            explain::run(&arguments, client, output).await
        }),
        Command::Stats => with_server(global, flag_names::NONE, stats::run),
        Command::Topics(arguments) => with_server(global, flag_names::OPERATOR, async |client, output| {
            topics::run(&arguments, client, output).await
        }),
        Command::Pause(arguments) => with_server(global, flag_names::PAUSE, async |client, output| {
            pause::pause(&arguments, client, output).await
        }),
        Command::Resume(arguments) => with_server(global, flag_names::PAUSE, async |client, output| {
            pause::resume(&arguments, client, output).await
        }),
    }
}

fn with_server(
    global: &GlobalOptions,
    flag_names: &FlagNames,
    run: impl AsyncFnOnce(Client, Output) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let (client, output) = (global.client()?, global.output());
    runtime::block_on(run(client, output)).map_err(|error| error.with_flag_names(flag_names))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_definition_is_valid() {
        super::command().debug_assert();
    }
}
