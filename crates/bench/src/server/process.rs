//! Processes of a run: a peer with its own port and directory, and the load process. All of them die with this process.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_system::uptime;
use tokio::runtime::Builder;

use super::client;
use super::client::http::TOKEN;
use super::job::{Job, Load, Outcome, Peer, Task};
use super::programs;
use crate::embedded::work_dir::WorkDir;

/// How long a peer may take to become ready.
const TIMEOUT: Duration = Duration::from_secs(20);
/// High enough for any load: the default limits of the mailbox suit a queue, not a benchmark. And no address that two
/// servers would share.
const SETTINGS: [&str; 3] =
    ["mailbox.shard_capacity=10000000", "mailbox.global_in_flight=10000000", "admin.listen=off"];

/// The same for the store: finished messages are kept for ten minutes, which at full load exceeds the default bounds.
const BOUNDS: &str = "messages_max=10000000&keys_max=50000000&live_bytes_max=17179869184";

/// A peer process, killed when this is dropped.
pub(super) struct Server {
    pub(super) peer: Peer,
    port: u16,
    child: Child,
    log: PathBuf,
    /// The token of requests, if the server demands one.
    token: Option<String>,
}

impl Server {
    /// Starts a peer on a new directory and waits until it is ready.
    pub(super) fn start(work_dir: &WorkDir, peer: Peer) -> Result<Self, String> {
        let program = programs::locate(peer)?;
        let directory = work_dir.fresh(&peer.to_string());
        let log = directory.with_extension("log");
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        let token = if peer == Peer::Tokens { Some(make_token(&program, &directory)?) } else { None };
        let output = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = output.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut command = with_death_signal(&program);
        command.args(arguments(peer, port, &directory)).stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().map_err(|error| format!("cannot start {peer}: {error}"))?;
        let mut server = Self { peer, port, child, log, token };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<(), String> {
        let load = Load { connections: 1, batch: 1, style: super::job::Style::Work };
        let job = self.job(load, Task::Send, 0.0);
        let runtime = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
        runtime.block_on(async {
            let start = uptime();
            loop {
                let answer = tokio::time::timeout(TIMEOUT, client::ready(&job)).await;
                let error = match answer {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer".to_owned(),
                };
                let ended = !matches!(self.child.try_wait(), Ok(None));
                if ended || uptime().saturating_sub(start) > TIMEOUT {
                    return Err(format!("{} did not become ready: {error}{}", self.peer, self.log_tail()));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].iter().flat_map(|line| ["\n  ", line]).collect()
    }

    /// A job with unique keys.
    fn job(&self, load: Load, task: Task, seconds: f64) -> Job {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Job { peer: self.peer, port: self.port, load, task, seconds, run }
    }

    /// Runs a load in a separate process and waits for it.
    pub(super) fn load(&self, load: Load, task: Task, seconds: f64) -> Result<Outcome, String> {
        let child = self.spawn_load(load, task, seconds)?;
        self.outcome(child)
    }

    pub(super) fn spawn_load(&self, load: Load, task: Task, seconds: f64) -> Result<Child, String> {
        let job = serde_json::to_string(&self.job(load, task, seconds)).expect("a job is JSON");
        let mut command = with_death_signal(&programs::locate(Peer::Bare)?);
        if let Some(token) = &self.token {
            command.env(TOKEN, token);
        }
        command.args(["load", &job]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("cannot start the load process: {error}"))
    }

    /// Waits for a load process and returns its outcome.
    pub(super) fn outcome(&self, child: Child) -> Result<Outcome, String> {
        let output =
            child.wait_with_output().map_err(|error| format!("cannot wait for the load process: {error}"))?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let error = String::from_utf8_lossy(&output.stderr);
            format!("the load process failed: {}{}", error.trim(), self.log_tail())
        })
    }

    /// Resident memory in MiB; `None` if the process has exited.
    pub(super) fn resident_mib(&self) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u32 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(f64::from(kib) / 1_024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a key file, and a token as a worker would have it.
fn make_token(program: &Path, directory: &Path) -> Result<String, String> {
    let keys = format!("{}.keys", directory.display());
    // Of an earlier server in this run.
    let _ = fs::remove_file(&keys);
    let run = |arguments: &[&str]| {
        let output = Command::new(program).arg("cap").args(arguments).args(["--key-file", &keys]).output();
        let output = output.map_err(|error| format!("cannot make a token: {error}"))?;
        if !output.status.success() {
            return Err(format!("cannot make a token: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    run(&["keygen"])?;
    run(&["mint", "--name", "bench", "--op", "send,send_batch,recv,work,settle,ack", "--for", "1h"])
}

fn with_death_signal(program: &Path) -> Command {
    let mut command = Command::new(programs::SETPRIV);
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Command-line arguments of a peer. Everything except port, directory and durability keeps its default.
fn arguments(peer: Peer, port: u16, directory: &Path) -> Vec<String> {
    let directory = directory.display();
    let line = match peer {
        Peer::Oncebox | Peer::Tokens => {
            let settings = SETTINGS.map(|setting| format!(" --set {setting}")).concat();
            let keys = if peer == Peer::Tokens {
                format!(" --set auth.key_file={directory}.keys")
            } else {
                String::new()
            };
            format!("serve --listen 127.0.0.1:{port} --store embedded:{directory}?{BOUNDS}{settings}{keys}")
        }
        Peer::Bare => format!("bare {port}"),
        Peer::Beanstalkd => format!("-l 127.0.0.1 -p {port} -b {directory} -f 0"),
        Peer::Redis => {
            format!("--bind 127.0.0.1 --port {port} --dir {directory} --appendonly yes --appendfsync always")
        }
        Peer::Nats => format!("-a 127.0.0.1 -p {port} -js -sd {directory}"),
    };
    let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if peer == Peer::Redis {
        // Durability comes from the append-only file; snapshots would be additional work.
        arguments.extend(["--save".to_owned(), String::new()]);
    }
    arguments
}
