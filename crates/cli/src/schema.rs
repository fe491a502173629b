//! `oncebox schema`: creates, validates and prints the schema of a PostgreSQL store.

use std::path::PathBuf;

use oncebox::postgres::{Address, Ensured, PostgresOptions};
use serde_json::json;

use crate::error::CliError;
use crate::output::{Output, write_bytes};
use crate::runtime;
use crate::settings::Settings;

/// Create, validate or print the PostgreSQL schema.
///
/// The store URL comes from --store, otherwise from the environment variable `ONCEBOX__STORE`, which keeps a password
/// out of the process list, otherwise from the configuration file. Writes prose, also to a pipe; with --output json or
/// ndjson, JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create the tables, or upgrade them to this version.
    ///
    /// Does nothing if they are up to date.
    Ensure(Store),
    /// List all differences between the tables and what this version expects.
    ///
    /// Changes nothing. Exits with 1 if there are any differences.
    Validate(Store),
    /// Print the SQL that creates the tables.
    ///
    /// For running it by hand. Does not connect to the database.
    Dump(Store),
}

#[derive(Debug, clap::Args)]
struct Store {
    /// Store URL: `postgres://USER@HOST/DATABASE?schema=NAME`.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Configuration file (TOML) that contains the store URL.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Store {
    fn address(&self) -> Result<Address, CliError> {
        let settings = Settings::for_store(self.config.clone(), self.store.clone());
        let loaded = settings.load()?.map_err(|problems| CliError::failed(problems.to_string()))?;
        let url = &loaded.config.store;
        if !url.starts_with("postgres") {
            let text = "only a PostgreSQL store has a schema: give --store postgres://USER@HOST/DATABASE";
            return Err(CliError::Usage(text.to_owned()));
        }
        Address::parse(url, PostgresOptions::default()).map_err(|error| CliError::Usage(error.to_string()))
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), CliError> {
    let output = output.prose_by_default();
    match &arguments.command {
        Command::Ensure(store) => ensure(&store.address()?, output),
        Command::Validate(store) => validate(&store.address()?, output),
        Command::Dump(store) => write_bytes(store.address()?.options().schema.dump().as_bytes()),
    }
}

fn ensure(address: &Address, output: Output) -> Result<(), CliError> {
    let schema = &address.options().schema;
    let ensured = runtime::block_on(async { Ok(schema.ensure(&address.connect().await?).await?) })?;
    let Ensured { before, now, .. } = ensured;
    output.write_one(&json!({ "schema": schema.name(), "before": before, "version": now }), || {
        let name = schema.name();
        vec![match before {
            None => format!("created the tables in the schema `{name}`, version {now}"),
            Some(before) if before == now => {
                format!("the tables in the schema `{name}` are up to date, version {now}")
            }
            Some(before) => {
                format!("upgraded the tables in the schema `{name}` from version {before} to {now}")
            }
        }]
    })
}

fn validate(address: &Address, output: Output) -> Result<(), CliError> {
    let schema = &address.options().schema;
    let differences = runtime::block_on(async { Ok(schema.validate(&address.connect().await?).await?) })?;
    let ok = differences.is_empty();
    output.write_one(&json!({ "schema": schema.name(), "ok": ok, "differences": differences }), || {
        if ok { vec!["the schema is valid".to_owned()] } else { differences.clone() }
    })?;
    let count = match differences.len() {
        0 => return Ok(()),
        1 => "1 difference".to_owned(),
        many => format!("{many} differences"),
    };
    Err(CliError::failed(format!(
        "{count} in the schema `{}`, listed above; `oncebox schema ensure` creates and upgrades tables, but does not repair them",
        schema.name()
    )))
}
