//! `oncebox config`: what the server would be set to.

use oncebox_server::config;
use serde_json::json;

use crate::output::{Output, write_bytes};
use crate::settings::Settings;
use crate::trouble::Trouble;

/// Checks and shows settings, without starting a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Tells everything that is wrong. Exit code 1: something is.
    Check(Settings),
    /// Shows what holds, as a file, and where each setting was set. Passwords are left out.
    Show(Settings),
    /// Writes the reference of all settings, as Markdown.
    Reference,
    /// Writes a file with all settings and their defaults.
    Example,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Trouble> {
    match &arguments.command {
        Command::Check(settings) => check(settings, output.of_prose()),
        Command::Show(settings) => {
            let loaded = settings.load()?.map_err(|problems| Trouble::failed(problems.to_string()))?;
            write_bytes(config::show(&loaded).trim_start().as_bytes())
        }
        Command::Reference => write_bytes(config::reference().as_bytes()),
        Command::Example => write_bytes(config::example().as_bytes()),
    }
}

fn check(settings: &Settings, output: Output) -> Result<(), Trouble> {
    match settings.load()? {
        Ok(loaded) => {
            let warnings = &loaded.warnings;
            output.one(&json!({ "ok": true, "problems": [], "warnings": warnings }), || {
                let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
                warnings.chain(["nothing is wrong".to_owned()]).collect()
            })
        }
        Err(problems) => {
            let texts: Vec<_> = problems.iter().map(str::to_owned).collect();
            output.one(&json!({ "ok": false, "problems": texts, "warnings": [] }), || {
                vec![problems.to_string()]
            })?;
            let many =
                if texts.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", texts.len()) };
            Err(Trouble::failed(format!(
                "{many} in the settings: see above; `oncebox config reference` tells all of them"
            )))
        }
    }
}
