//! Server processes: unprivileged, killed when the test process ends, and polled until they respond.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use oncebox_system::uptime;

use super::directory;
use super::programs;

/// The maximum time for a server to respond or to end. Only a broken server takes that long.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The number of log lines in an error about a server.
const LOG_TAIL_LINES: usize = 12;

/// A server process, killed when this value is dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
    /// The size of the log when this process started.
    log_start: usize,
}

impl Process {
    /// Starts a command whose output goes to the end of `log`.
    pub(super) fn start(mut command: Command, log: PathBuf) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("{} does not start: {error}", log.display());
        let output = File::options().create(true).append(true).open(&log).map_err(cannot)?;
        let log_start = output.metadata().map_err(cannot)?.len();
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(cannot)?)
            .stderr(output)
            .process_group(0);
        let child = spawn(command).map_err(cannot)?;
        Ok(Self { child, log, log_start: usize::try_from(log_start).unwrap_or_default() })
    }

    /// Polls `ready` until it succeeds.
    pub(super) fn wait_until(&mut self, mut ready: impl FnMut() -> Result<(), String>) -> Result<(), String> {
        let start = uptime();
        loop {
            let error = match ready() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended || uptime().saturating_sub(start) > TIMEOUT {
                return Err(format!("the server does not respond: {error}{}", self.log_tail()));
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default());
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].iter().flat_map(|line| ["\n  ", line]).collect()
    }

    /// Sends a signal that ends it, and waits for its end.
    pub(super) fn end_by(mut self, signal: &str) -> Result<(), String> {
        send(signal, &[self.child.id()]);
        let start = uptime();
        while matches!(self.child.try_wait(), Ok(None)) {
            if uptime().saturating_sub(start) > TIMEOUT {
                return Err(format!("the server did not end after SIG{signal}{}", self.log_tail()));
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Stops it, so that it does not fork while its children are listed; returns it and its children.
    fn stop_forking(&self) -> Vec<u32> {
        let id = self.child.id();
        send("STOP", &[id]);
        wait_while(|| stat(id).is_some_and(|(state, _)| !"TZ".contains(state)));
        let mut processes = children(id);
        processes.push(id);
        processes
    }

    /// Stops it and its children: connections stay open, and nothing responds.
    pub(super) fn freeze(&self) {
        let processes = self.stop_forking();
        send("STOP", &processes);
        let runs = |id: &u32| stat(*id).is_some_and(|(state, _)| !"TZ".contains(state));
        wait_while(|| processes.iter().any(runs));
    }

    /// Stops it, but not its children.
    pub(super) fn freeze_alone(&self) {
        self.stop_forking();
    }

    /// Resumes it and its children.
    pub(super) fn thaw(&self) {
        let mut processes = children(self.child.id());
        processes.push(self.child.id());
        send("CONT", &processes);
    }

    /// Kills it and its children at the same moment.
    fn kill(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let processes = self.stop_forking();
        send("KILL", &processes);
        let _ = self.child.wait();
        // Their new parent may be slow to reap them, but dead processes hold no resources.
        wait_while(|| processes.iter().any(|id| stat(*id).is_some_and(|(state, _)| !"ZX".contains(state))));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that runs unprivileged in `directory`, and is killed when the thread that started it ends.
pub(super) fn unprivileged(program: &Path, directory: &Path) -> Result<Command, String> {
    let mut command = Command::new(programs::on_path("setpriv", "util-linux")?);
    command.args(["--pdeathsig", "KILL"]).current_dir(directory).env("LC_ALL", "C");
    if let Some(user) = directory::server_user() {
        command.args([format!("--reuid={user}"), format!("--regid={user}")]);
        command.args(["--clear-groups", "--inh-caps=-all"]);
    }
    command.arg(program);
    Ok(command)
}

/// Runs a command to its end; returns its output, or its error output.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
}

/// Starts a process from a thread that lives until this process ends: `pdeathsig` applies to the parent's thread.
fn spawn(command: Command) -> io::Result<Child> {
    type SpawnRequest = (Command, Sender<io::Result<Child>>);
    static REQUESTS: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let requests = REQUESTS.get_or_init(|| {
        let (requests, received) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, reply) in received {
                let _ = reply.send(command.spawn());
            }
        });
        requests
    });
    let (reply, child) = mpsc::channel();
    requests.send((command, reply)).expect("the thread ends with the process");
    child.recv().expect("every request is answered")
}

/// Polls until `done` is true.
pub(super) fn wait_for(what: &str, done: impl Fn() -> Result<bool, String>) -> Result<(), String> {
    let start = uptime();
    while !done()? {
        if uptime().saturating_sub(start) > TIMEOUT {
            return Err(format!("timed out waiting for {what}"));
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    Ok(())
}

fn wait_while(condition: impl Fn() -> bool) {
    let start = uptime();
    while condition() && uptime().saturating_sub(start) < TIMEOUT {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Ignores errors: a process that no longer exists needs no signal.
fn send(signal: &str, processes: &[u32]) {
    let processes = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").args(["-s", signal]).args(processes).stderr(Stdio::null()).status();
}

fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|id| stat(*id).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// The state and the parent of a process; none if it does not exist.
fn stat(process: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name before it may contain anything, including parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
