//! `oncebox config`: checks and prints the server configuration.

use oncebox_server::config;
use serde_json::json;

use crate::error::CliError;
use crate::output::{Output, write_bytes};
use crate::settings::Settings;

/// Check and print the server configuration without starting a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check the configuration and list all problems.
    ///
    /// Exits with 1 if there are any.
    Check(Settings),
    /// Print the effective configuration as TOML.
    ///
    /// Includes the source of each setting. Passwords are left out.
    Show(Settings),
    /// Print the configuration reference as Markdown.
    Reference,
    /// Print a configuration file with all settings and their defaults.
    Example,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), CliError> {
    match &arguments.command {
        Command::Check(settings) => check(settings, output.prose_by_default()),
        Command::Show(settings) => {
            let loaded = settings.load()?.map_err(|problems| CliError::failed(problems.to_string()))?;
            write_bytes(config::show(&loaded).trim_start().as_bytes())
        }
        Command::Reference => write_bytes(config::reference().as_bytes()),
        Command::Example => write_bytes(config::example().as_bytes()),
    }
}

fn check(settings: &Settings, output: Output) -> Result<(), CliError> {
    match settings.load()? {
        Ok(loaded) => {
            let warnings = &loaded.warnings;
            output.write_one(&json!({ "ok": true, "problems": [], "warnings": warnings }), || {
                let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
                warnings.chain(["the configuration is valid".to_owned()]).collect()
            })
        }
        Err(problems) => {
            let texts: Vec<_> = problems.iter().map(str::to_owned).collect();
            output.write_one(&json!({ "ok": false, "problems": texts, "warnings": [] }), || {
                vec![problems.to_string()]
            })?;
            let count =
                if texts.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", texts.len()) };
            Err(CliError::failed(format!(
                "{count} in the configuration, listed above; `oncebox config reference` lists all settings"
            )))
        }
    }
}
