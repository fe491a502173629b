//! The server of the demo: this very program as a process of its own, which never outlives the demo.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncebox_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::text;
use crate::trouble::Trouble;

/// The names of sockets are no longer anywhere.
const SOCKET_BYTES_MAX: usize = 100;
/// How often it is looked whether something has happened to it.
const POLL: Duration = Duration::from_millis(20);
/// Nothing that the server is told takes so long, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);
/// Quick, so that the demo is. The usual delays suit real work better.
const BACKOFF: [&str; 4] =
    ["--set", "mailbox.topic.backoff_base=60ms", "--set", "mailbox.topic.backoff_max=300ms"];

/// The running server; killed when it is dropped.
pub(super) struct Server {
    home: PathBuf,
    /// Where it is told to listen.
    listen: String,
    child: Child,
}

impl Server {
    /// Starts it in this directory, and waits until it is ready.
    pub(super) async fn start(home: &Path) -> Result<Self, Trouble> {
        let socket = format!("unix:{}", home.join("oncebox.sock").display());
        let listen = if socket.len() > SOCKET_BYTES_MAX { "127.0.0.1:0".to_owned() } else { socket };
        let child = spawn(home, &listen)?;
        let mut server = Self { home: home.to_owned(), listen, child };
        let deadline = Instant::now() + PATIENCE;
        while server.listen.ends_with(":0") {
            server.must_live()?;
            server.learn_port();
            wait(deadline).await?;
        }
        let client = Client::builder(&server.address()).retries(0).build()?;
        while !is_ready(&client).await {
            server.must_live()?;
            wait(deadline).await?;
        }
        Ok(server)
    }

    /// Where clients find it; the same after it was started again.
    pub(super) fn address(&self) -> String {
        if self.listen.starts_with("unix:") { self.listen.clone() } else { format!("http://{}", self.listen) }
    }

    /// As a power cut would: it can do nothing about it.
    pub(super) fn kill(&mut self) -> Result<(), Trouble> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| Trouble::failed(format!("the server cannot be killed: {error}")))
    }

    /// Another process on the same directory. It is ready some time later.
    pub(super) fn start_again(&mut self) -> Result<(), Trouble> {
        self.child = spawn(&self.home, &self.listen)?;
        Ok(())
    }

    /// An error if it has ended.
    pub(super) fn must_live(&mut self) -> Result<(), Trouble> {
        if self.child.try_wait().ok().flatten().is_none() {
            return Ok(());
        }
        let log = fs::read_to_string(log(&self.home)).unwrap_or_default();
        let last = text::plain(log.lines().last().unwrap_or("without a word"));
        Err(Trouble::failed(format!("the server ended by itself: {last}")))
    }

    /// Tells it to stop, waits until it has, and gives back its exit code; none if it was killed.
    pub(super) async fn stop(mut self) -> Result<Option<i32>, Trouble> {
        let told = kill_process(Pid::from_child(&self.child), Signal::TERM);
        told.map_err(|error| Trouble::failed(format!("the server cannot be told to stop: {error}")))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(status.code());
            }
            wait(deadline).await?;
        }
    }

    /// The port that it got, once its log tells.
    fn learn_port(&mut self) {
        let log = fs::read_to_string(log(&self.home)).unwrap_or_default();
        let told = log.lines().filter(|line| line.contains("\"listening\"")).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split_once('"')?.0.to_owned())
        });
        self.listen = told.unwrap_or(std::mem::take(&mut self.listen));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; and there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the server at this address is ready again.
pub(super) async fn until_ready(client: Client) -> Result<(), Trouble> {
    let deadline = Instant::now() + PATIENCE;
    while !is_ready(&client).await {
        wait(deadline).await?;
    }
    Ok(())
}

async fn is_ready(client: &Client) -> bool {
    client.ready().await.is_ok_and(|ready| ready.reads && ready.writes && !ready.degraded)
}

async fn wait(deadline: Instant) -> Result<(), Trouble> {
    if Instant::now() > deadline {
        let seconds = PATIENCE.as_secs();
        return Err(Trouble::failed(format!(
            "the server does not react for {seconds} s: run it again on an idle machine"
        )));
    }
    sleep(POLL).await;
    Ok(())
}

fn log(home: &Path) -> PathBuf {
    home.join("server.log")
}

fn spawn(home: &Path, listen: &str) -> Result<Child, Trouble> {
    let failed = |error| Trouble::failed(format!("cannot start a server: {error}"));
    let log = File::options().create(true).append(true).open(log(home)).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["serve", "--listen", listen, "--log-format", "json"]).args(BACKOFF);
    // A server of the user's own may have the default address.
    command.args(["--set", "admin.listen=off"]);
    command.arg("--store").arg(format!("embedded:{}", home.join("data").display()));
    for (name, _) in std::env::vars_os() {
        // What the user has set is for servers of their own.
        if name.to_string_lossy().starts_with("ONCEBOX__") {
            command.env_remove(name);
        }
    }
    // A group of its own: an interrupt from the terminal ends the demo, and that ends the server.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(failed)
}
