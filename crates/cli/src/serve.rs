//! `oncebox serve`: runs the server.

mod wiping;

use std::error::Error as StdError;

use oncebox_server::{Error, Reloader, Server, log};

use crate::settings::Settings;
use crate::trouble::Trouble;
use crate::{Freed, life};

/// Runs the server until it is interrupted or terminated; then it lets everybody finish. A second signal ends it at once.
///
/// Listens on 127.0.0.1:7420, for operators also on 127.0.0.1:7421, and keeps its messages in ./oncebox-data, unless the
/// settings say otherwise. Logs to stderr. Reads its settings again on SIGHUP.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
}

pub(crate) fn run(arguments: &Arguments, freed: Freed) -> Result<(), Trouble> {
    let loaded = arguments.settings.load()?.map_err(|problems| {
        Trouble::failed(format!(
            "the settings are wrong:\n{problems}\n`oncebox config reference` tells all of them"
        ))
    })?;
    if loaded.config.amnesia && freed == Freed::Kept {
        return Err(wiping::become_wiping());
    }
    log::install(&loaded.config.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Trouble::failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        // Whoever reads that the server listens may send a signal at once: nothing but us must answer it.
        let shutdown = shutdown();
        let server = Server::start(loaded).await?;
        let reloads = reload_on_hangup(&arguments.settings, server.reloader());
        tokio::select! {
            ended = server.run(shutdown) => Ok(ended?),
            () = reloads => Ok(()),
        }
    })
}

/// Reads the settings again whenever somebody sends SIGHUP, from this call on; never ends. Wrong ones change nothing.
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
        // What waits for a restart is in the log.
        Ok(Ok(loaded)) => reloader.reload(loaded).err().map(|error| error.to_string()),
        Ok(Err(problems)) => Some(problems.to_string()),
        Err(trouble) => trouble.text().map(str::to_owned),
    };
    if let Some(problem) = problem {
        reloader.refused(&problem);
    }
}

/// Ready at the first signal from this call on. From then on, the next one ends the process.
fn shutdown() -> impl Future<Output = ()> {
    let first = life::interrupted();
    async {
        first.await;
        let second = life::interrupted();
        tokio::spawn(async {
            second.await;
            log::warn("stopped at once: what was not answered may or may not have happened");
            std::process::exit(130);
        });
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => error.into(),
            Error::Listen { .. } => Self::failed(error.to_string()),
            error => {
                let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
                Self::failed(format!("{error}{source}"))
            }
        }
    }
}
