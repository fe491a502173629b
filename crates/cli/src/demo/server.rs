//! The server of the demo: this program as a separate process, which never outlives the demo.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncebox_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::error::CliError;
use crate::text;

/// Longer socket paths are not accepted on every platform.
const SOCKET_BYTES_MAX: usize = 100;
/// How often the process is polled.
const POLL: Duration = Duration::from_millis(20);
/// Time limit for the server to become ready or to stop.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Short, so that the demo is. The default delays suit real work better.
const BACKOFF: [&str; 4] =
    ["--set", "mailbox.topic.backoff_base=60ms", "--set", "mailbox.topic.backoff_max=300ms"];

/// The running server; killed when it is dropped.
pub(super) struct Server {
    directory: PathBuf,
    /// The listen address; the port is 0 until it is known.
    listen: String,
    child: Child,
}

impl Server {
    /// Starts the server in this directory and waits until it is ready.
    pub(super) async fn start(directory: &Path) -> Result<Self, CliError> {
        let socket = format!("unix:{}", directory.join("oncebox.sock").display());
        let listen = if socket.len() > SOCKET_BYTES_MAX { "127.0.0.1:0".to_owned() } else { socket };
        let child = spawn(directory, &listen)?;
        let mut server = Self { directory: directory.to_owned(), listen, child };
        let deadline = Instant::now() + TIMEOUT;
        while server.listen.ends_with(":0") {
            server.check_running()?;
            server.read_port_from_log();
            wait(deadline).await?;
        }
        let client = Client::builder(&server.address()).retries(0).build()?;
        while !is_ready(&client).await {
            server.check_running()?;
            wait(deadline).await?;
        }
        Ok(server)
    }

    /// The address for clients; it stays the same after a restart.
    pub(super) fn address(&self) -> String {
        if self.listen.starts_with("unix:") { self.listen.clone() } else { format!("http://{}", self.listen) }
    }

    /// Kills the process with SIGKILL, so that it cannot shut down cleanly.
    pub(super) fn kill(&mut self) -> Result<(), CliError> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| CliError::failed(format!("cannot kill the server: {error}")))
    }

    /// Starts another process on the same directory; does not wait until it is ready.
    pub(super) fn restart(&mut self) -> Result<(), CliError> {
        self.child = spawn(&self.directory, &self.listen)?;
        Ok(())
    }

    /// Returns an error if the process has exited.
    pub(super) fn check_running(&mut self) -> Result<(), CliError> {
        if self.child.try_wait().ok().flatten().is_none() {
            return Ok(());
        }
        let log = fs::read_to_string(log(&self.directory)).unwrap_or_default();
        let last = text::escape(log.lines().last().unwrap_or("nothing was logged"));
        Err(CliError::failed(format!("the server exited unexpectedly: {last}")))
    }

    /// Sends SIGTERM, waits for the process to exit, and returns its exit code; `None` if a signal ended it.
    pub(super) async fn stop(mut self) -> Result<Option<i32>, CliError> {
        let signalled = kill_process(Pid::from_child(&self.child), Signal::TERM);
        signalled.map_err(|error| CliError::failed(format!("cannot stop the server: {error}")))?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(status.code());
            }
            wait(deadline).await?;
        }
    }

    /// Takes over the port that the server listens on, once it is in its log.
    fn read_port_from_log(&mut self) {
        let log = fs::read_to_string(log(&self.directory)).unwrap_or_default();
        let address = log.lines().filter(|line| line.contains("\"listening\"")).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split_once('"')?.0.to_owned())
        });
        self.listen = address.unwrap_or(std::mem::take(&mut self.listen));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already, and an error could not be reported from here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the server is ready.
pub(super) async fn until_ready(client: Client) -> Result<(), CliError> {
    let deadline = Instant::now() + TIMEOUT;
    while !is_ready(&client).await {
        wait(deadline).await?;
    }
    Ok(())
}

async fn is_ready(client: &Client) -> bool {
    client.ready().await.is_ok_and(|ready| ready.reads && ready.writes && !ready.degraded)
}

async fn wait(deadline: Instant) -> Result<(), CliError> {
    if Instant::now() > deadline {
        let seconds = TIMEOUT.as_secs();
        return Err(CliError::failed(format!(
            "the server did not respond within {seconds} s: run the demo again on an idle machine"
        )));
    }
    sleep(POLL).await;
    Ok(())
}

fn log(directory: &Path) -> PathBuf {
    directory.join("server.log")
}

fn spawn(directory: &Path, listen: &str) -> Result<Child, CliError> {
    let failed = |error| CliError::failed(format!("cannot start a server: {error}"));
    let log = File::options().create(true).append(true).open(log(directory)).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["serve", "--listen", listen, "--log-format", "json"]).args(BACKOFF);
    // The user's own server may be listening on the default address.
    command.args(["--set", "admin.listen=off"]);
    command.arg("--store").arg(format!("embedded:{}", directory.join("data").display()));
    for (name, _) in std::env::vars_os() {
        // The user's settings are meant for their own server.
        if name.to_string_lossy().starts_with("ONCEBOX__") {
            command.env_remove(name);
        }
    }
    // In its own process group, so that Ctrl-C reaches only the demo, which then ends the server.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(failed)
}
