//! `oncebox serve`: runs the server.

mod amnesia;

use std::error::Error as StdError;

use oncebox_server::{Reloader, Server, ServerError, log};

use crate::error::CliError;
use crate::settings::Settings;
use crate::{FreedMemory, runtime};

/// Run the server.
///
/// By default, the server listens on 127.0.0.1:7420, and for operators on 127.0.0.1:7421, and stores messages in
/// ./oncebox-data. It logs to stderr.
///
/// SIGINT or SIGTERM shuts it down gracefully; a second signal stops it immediately. SIGHUP reloads the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
}

pub(crate) fn run(arguments: &Arguments, freed: FreedMemory) -> Result<(), CliError> {
    let loaded = arguments.settings.load()?.map_err(|problems| {
        CliError::failed(format!(
            "invalid configuration:\n{problems}\n`oncebox config reference` lists all settings"
        ))
    })?;
    if loaded.config.amnesia && freed == FreedMemory::Kept {
        return Err(amnesia::exec_amnesia());
    }
    log::install(&loaded.config.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        // Signal handlers first: a supervisor may send a signal as soon as it reads that the server listens.
        let shutdown = shutdown();
        let server = Server::start(loaded).await?;
        let reloads = reload_on_hangup(&arguments.settings, server.reloader());
        tokio::select! {
            result = server.run(shutdown) => Ok(result?),
            () = reloads => Ok(()),
        }
    })
}

/// Reloads the configuration on every SIGHUP from this call on; never completes. An invalid one changes nothing.
fn reload_on_hangup(settings: &Settings, reloader: Reloader) -> impl Future<Output = ()> {
    #[cfg(unix)]
    let hangup = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::hangup())
    };
    async move {
        #[cfg(unix)]
        if let Ok(mut hangup) = hangup {
            while hangup.recv().await.is_some() {
                reload(settings, &reloader);
            }
        }
        std::future::pending::<()>().await;
    }
}

fn reload(settings: &Settings, reloader: &Reloader) {
    let problem = match settings.load() {
        // Settings that need a restart are logged by the server.
        Ok(Ok(loaded)) => reloader.reload(loaded).err().map(|error| error.to_string()),
        Ok(Err(problems)) => Some(problems.to_string()),
        Err(error) => error.text().map(str::to_owned),
    };
    if let Some(problem) = problem {
        reloader.reload_failed(&problem);
    }
}

/// Completes at the first SIGINT or SIGTERM from this call on. The next one exits the process.
fn shutdown() -> impl Future<Output = ()> {
    let first = runtime::interrupted();
    async {
        first.await;
        let second = runtime::interrupted();
        tokio::spawn(async {
            second.await;
            log::warn("stopped immediately: requests without a response may or may not have taken effect");
            std::process::exit(130);
        });
    }
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Store(error) => error.into(),
            ServerError::Listen { .. } => Self::failed(error.to_string()),
            error => {
                let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
                Self::failed(format!("{error}{source}"))
            }
        }
    }
}
