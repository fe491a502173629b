//! `oncebox schema`: the tables of a store on PostgreSQL.

use std::path::PathBuf;

use oncebox::postgres::{Address, Ensured, Options};
use serde_json::json;

use crate::life;
use crate::output::{Output, write_bytes};
use crate::settings::Settings;
use crate::trouble::Trouble;

/// Makes, checks and writes down the tables of a store on PostgreSQL.
///
/// The store is the server's: from --store, else from the variable `ONCEBOX__STORE`, which keeps a password out of the list
/// of processes, else from the file of settings. Prose, also on a pipe; with --output json or ndjson, as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Makes the tables, or brings them to this version. Does nothing if they are as they should be.
    Ensure(Store),
    /// Tells everything in which the tables differ from what this version needs; changes nothing. Exit code 1: something
    /// does.
    Validate(Store),
    /// Writes the SQL that makes the tables from nothing, for those who run it themselves; connects to nothing.
    Dump(Store),
}

#[derive(Debug, clap::Args)]
struct Store {
    /// The store: `postgres://USER@HOST/DATABASE?schema=NAME`.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// A file of settings (TOML) that says where the store is.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Store {
    fn address(&self) -> Result<Address, Trouble> {
        let settings = Settings::of_store(self.config.clone(), self.store.clone());
        let loaded = settings.load()?.map_err(|problems| Trouble::failed(problems.to_string()))?;
        let url = &loaded.config.store;
        if !url.starts_with("postgres") {
            let text = "only a store on PostgreSQL has a schema: give --store postgres://USER@HOST/DATABASE";
            return Err(Trouble::Misused(text.to_owned()));
        }
        Address::parse(url, Options::default()).map_err(|error| Trouble::Misused(error.to_string()))
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Trouble> {
    let output = output.of_prose();
    match &arguments.command {
        Command::Ensure(store) => ensure(&store.address()?, output),
        Command::Validate(store) => validate(&store.address()?, output),
        Command::Dump(store) => write_bytes(store.address()?.options().schema.dump().as_bytes()),
    }
}

fn ensure(address: &Address, output: Output) -> Result<(), Trouble> {
    let schema = &address.options().schema;
    let ensured = life::of_its_own(async { Ok(schema.ensure(&address.connect().await?).await?) })?;
    let Ensured { before, now, .. } = ensured;
    output.one(&json!({ "schema": schema.name(), "before": before, "version": now }), || {
        let place = format!("the tables in the schema `{}`", schema.name());
        vec![match before {
            None => format!("{place} are made, in version {now}"),
            Some(before) if before == now => format!("{place} are of version {now} already"),
            Some(before) => format!("{place} were of version {before} and are of version {now} now"),
        }]
    })
}

fn validate(address: &Address, output: Output) -> Result<(), Trouble> {
    let schema = &address.options().schema;
    let differences = life::of_its_own(async { Ok(schema.validate(&address.connect().await?).await?) })?;
    let ok = differences.is_empty();
    output.one(&json!({ "schema": schema.name(), "ok": ok, "differences": differences }), || {
        if ok { vec!["nothing differs".to_owned()] } else { differences.clone() }
    })?;
    let many = match differences.len() {
        0 => return Ok(()),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    };
    Err(Trouble::failed(format!(
        "{many} in the schema `{}`: see above; `oncebox schema ensure` makes and upgrades tables, but does not mend them",
        schema.name()
    )))
}
