//! Processes of servers: without rights, dead when the test process ends, waited for until they answer.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use oncebox_system::uptime;

use super::place;
use super::programs;

/// How long a server may take to answer or to end. Only a broken one takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
/// So many lines of its log tell why a server does not work.
const LAST_LINES: usize = 12;

/// A server's process, killed when this is dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
    /// Where this process began to write into the log.
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

    /// Waits until `ready` has no complaint any more.
    pub(super) fn wait_until(&mut self, mut ready: impl FnMut() -> Result<(), String>) -> Result<(), String> {
        let start = uptime();
        loop {
            let complaint = match ready() {
                Ok(()) => return Ok(()),
                Err(complaint) => complaint,
            };
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended || uptime().saturating_sub(start) > PATIENCE {
                return Err(format!("a server does not work: {complaint}{}", self.last_words()));
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default());
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].iter().flat_map(|line| ["\n  ", line]).collect()
    }

    /// Sends a signal that ends it, and waits for that.
    pub(super) fn end_by(mut self, signal: &str) -> Result<(), String> {
        send(signal, &[self.child.id()]);
        let start = uptime();
        while matches!(self.child.try_wait(), Ok(None)) {
            if uptime().saturating_sub(start) > PATIENCE {
                return Err(format!("a server does not end after SIG{signal}{}", self.last_words()));
            }
            std::thread::park_timeout(PAUSE);
        }
        Ok(())
    }

    /// Stops it, so that it does not fork while its children are counted; gives it and them.
    fn stop_forking(&self) -> Vec<u32> {
        let id = self.child.id();
        send("STOP", &[id]);
        wait_while(|| stat(id).is_some_and(|(state, _)| !"TZ".contains(state)));
        let mut family = children(id);
        family.push(id);
        family
    }

    /// Lets it and its children stand still: connections stay open, and nothing answers.
    pub(super) fn freeze(&self) {
        let family = self.stop_forking();
        send("STOP", &family);
        let runs = |id: &u32| stat(*id).is_some_and(|(state, _)| !"TZ".contains(state));
        wait_while(|| family.iter().any(runs));
    }

    /// Lets it stand still, and its children go on.
    pub(super) fn freeze_alone(&self) {
        self.stop_forking();
    }

    /// Lets it and its children go on.
    pub(super) fn thaw(&self) {
        let mut family = children(self.child.id());
        family.push(self.child.id());
        send("CONT", &family);
    }

    /// Kills it and its children at one moment.
    fn kill(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let family = self.stop_forking();
        send("KILL", &family);
        let _ = self.child.wait();
        // Whatever adopts them may be slow to bury them; but dead they hold nothing any more.
        wait_while(|| family.iter().any(|id| stat(*id).is_some_and(|(state, _)| !"ZX".contains(state))));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that runs without rights in `directory`, and dies with the thread that starts it.
pub(super) fn unprivileged(program: &Path, directory: &Path) -> Result<Command, String> {
    let mut command = Command::new(programs::on_path("setpriv", "util-linux")?);
    command.args(["--pdeathsig", "KILL"]).current_dir(directory).env("LC_ALL", "C");
    if let Some(user) = place::server_user() {
        command.args([format!("--reuid={user}"), format!("--regid={user}")]);
        command.args(["--clear-groups", "--inh-caps=-all"]);
    }
    command.arg(program);
    Ok(command)
}

/// Runs a command to its end; its output, or what it complains about.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
}

/// Starts a process from a thread that lives as long as we do: what dies with its parent dies with its parent's thread.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, child) = mpsc::channel();
    orders.send((command, answer)).expect("the thread ends with the process");
    child.recv().expect("every order is answered")
}

/// Waits until `done` is so.
pub(super) fn wait_for(what: &str, done: impl Fn() -> Result<bool, String>) -> Result<(), String> {
    let start = uptime();
    while !done()? {
        if uptime().saturating_sub(start) > PATIENCE {
            return Err(format!("waited in vain for {what}"));
        }
        std::thread::park_timeout(PAUSE);
    }
    Ok(())
}

fn wait_while(condition: impl Fn() -> bool) {
    let start = uptime();
    while condition() && uptime().saturating_sub(start) < PATIENCE {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// What does not exist any more needs no signal, so nothing is answered.
fn send(signal: &str, processes: &[u32]) {
    let processes = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").args(["-s", signal]).args(processes).stderr(Stdio::null()).status();
}

fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|id| stat(*id).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// A process's state and its parent; none if it does not exist.
fn stat(process: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may hold anything, also brackets.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
