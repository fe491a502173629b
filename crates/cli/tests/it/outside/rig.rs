//! A server of its own for each test: the real binary on a free port, with throwaway data, gone with the test.

use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::park_timeout;
use std::time::Duration;

use oncebox_testkit::servers::{Database, Postgres};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use super::http::{Answer, Connection, PATIENCE, Request};
use crate::rig::oncebox_under;

/// Looks at a condition before it is given up; each takes as long as [`Server::pause`].
const LOOKS_MAX: usize = 3_000;

/// Between two looks at a process or its log.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSES_MAX: u128 = PATIENCE.as_millis() / PAUSE.as_millis();

/// Where messages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Embedded,
    Postgres,
}

/// What is gone with the test: a directory, and a database once one is asked for.
pub(crate) struct Place {
    directory: TempDir,
    database: OnceLock<Database<'static>>,
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The URL of a store that is empty at first.
    pub(crate) fn url(&self, store: Store) -> String {
        match store {
            Store::Memory => "memory:".to_owned(),
            Store::Embedded => format!("embedded:{}", self.path().join("data").display()),
            Store::Postgres => format!("{}?ensure=yes", self.database.get_or_init(database).url()),
        }
    }
}

fn database() -> Database<'static> {
    Postgres::shared().and_then(Postgres::lend_database).expect("a private PostgreSQL")
}

pub(crate) type Home = Arc<Place>;

pub(crate) fn home() -> Home {
    let directory = TempDir::new().expect("a directory");
    Arc::new(Place { directory, database: OnceLock::new() })
}

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    home: Home,
    pub(crate) address: String,
    /// A file and no pipe: what the server wrote before an answer is there when the answer is.
    log: NamedTempFile,
}

/// Runs a test on each kind of store; `set` is any settings, as in `mailbox.shards=1`.
pub(crate) fn on_every_store(set: &[&str], test: impl Fn(Server)) {
    on_each(&[Store::Memory, Store::Embedded, Store::Postgres], |store| test(Server::start(store, set)));
}

/// Runs a test on the stores that need no other server: for what is decided before a store is asked.
pub(crate) fn on_own_stores(set: &[&str], test: impl Fn(Server)) {
    on_each(&[Store::Memory, Store::Embedded], |store| test(Server::start(store, set)));
}

/// Runs a test on each kind of store that outlives the server.
pub(crate) fn on_durable_stores(test: impl Fn(Store)) {
    on_each(&[Store::Embedded, Store::Postgres], test);
}

fn on_each(stores: &[Store], test: impl Fn(Store)) {
    for store in stores {
        println!("on {store:?}");
        test(*store);
    }
}

impl Server {
    pub(crate) fn start(store: Store, set: &[&str]) -> Self {
        Self::start_in(home(), store, set)
    }

    /// On what is there from before.
    pub(crate) fn start_in(home: Home, store: Store, set: &[&str]) -> Self {
        let url = home.url(store);
        Self::start_with(home, &["--store", &url], set)
    }

    pub(crate) fn start_with(home: Home, arguments: &[&str], set: &[&str]) -> Self {
        Self::start_under(&[], home, arguments, set)
    }

    /// The same, run by another program, which must become the server.
    pub(crate) fn start_under(wrapper: &[&str], home: Home, arguments: &[&str], set: &[&str]) -> Self {
        let mut command =
            oncebox_under(wrapper, &["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        command.args(["--set", "admin.listen=127.0.0.1:0"]);
        let settings = std::env::vars_os().map(|(name, _)| name);
        for name in settings.filter(|name| name.to_string_lossy().starts_with("ONCEBOX__")) {
            command.env_remove(name);
        }
        let (work, temporary) = (home.path().join("work"), home.path().join("tmp"));
        for directory in [&work, &temporary] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        command.args(arguments).args(set.iter().flat_map(|set| ["--set", *set]));
        command.current_dir(work).env("TMPDIR", temporary);
        let log = NamedTempFile::new().expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen().expect("a file"));
        let child = command.spawn().expect("the binary runs");
        let mut server = Self { child, home, address: String::new(), log };
        let listening = server.wait_for_line("http://127.0.0.1:");
        let listening: Value = serde_json::from_str(&listening).expect("a line is JSON");
        server.address = listening["address"].as_str().expect("an address")["http://".len()..].to_owned();
        server
    }

    /// The address for operators.
    pub(crate) fn admin_address(&self) -> String {
        let line = self.wait_for_line("listening for operators");
        let line: Value = serde_json::from_str(&line).expect("a line is JSON");
        line["admin"].as_str().expect("an address")["http://".len()..].to_owned()
    }

    /// The directory of what it keeps, gone with the test.
    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log_path(&self) -> &Path {
        self.log.path()
    }

    /// All that it logged, in whole lines.
    pub(crate) fn log(&self) -> String {
        let mut log = std::fs::read_to_string(self.log.path()).expect("a log in UTF-8");
        log.truncate(log.rfind('\n').map_or(0, |end| end + 1));
        log
    }

    /// Waits for a line of the log that contains a text.
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        for _ in 0..PAUSES_MAX {
            let ended = self.has_ended();
            if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            if ended {
                break;
            }
            park_timeout(PAUSE);
        }
        panic!("no line says {text:?}:\n{}", self.log());
    }

    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), look).expect("it is ours").is_some()
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self) -> Home {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
        Arc::clone(&self.home)
    }

    /// Tells it to stop as `kill` does.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(mut self) -> (ExitStatus, Home) {
        let ended = (0..PAUSES_MAX).any(|_| {
            let ended = self.has_ended();
            if !ended {
                park_timeout(PAUSE);
            }
            ended
        });
        assert!(ended, "it does not end");
        (self.child.wait().expect("it ended"), Arc::clone(&self.home))
    }

    /// Stops it, which must go well.
    pub(crate) fn stop(self) -> Home {
        self.terminate();
        let (status, home) = self.ended();
        assert_eq!(status.code(), Some(0));
        home
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::tcp(&self.address)
    }

    pub(crate) fn call(&self, request: &Request) -> Answer {
        self.connect().call(request)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call(&Request::get(path))
    }

    pub(crate) fn post(&self, path: &str, json: &Value) -> Answer {
        self.call(&Request::post(path, json))
    }

    /// Waits a little, by asking the server for a message that never comes.
    pub(crate) fn pause(&self) {
        self.post("/v1/recv", &json!({"topic": "nobody-sends-here", "wait_ms": 20})).ok();
    }

    /// Looks again and again until there is something.
    #[track_caller]
    pub(crate) fn eventually<T>(&self, look: impl Fn() -> Option<T>) -> T {
        self.try_eventually(LOOKS_MAX, look).expect("it happens before all looks are used up")
    }

    /// The same, with so many looks; none if nothing was there at any.
    pub(crate) fn try_eventually<T>(&self, looks_max: usize, look: impl Fn() -> Option<T>) -> Option<T> {
        (0..looks_max).find_map(|_| {
            let found = look();
            if found.is_none() {
                self.pause();
            }
            found
        })
    }

    /// The value of a metric with exactly these labels, as it stands in the text; none if it is not there.
    pub(crate) fn metric(&self, series: &str) -> Option<String> {
        let answer = self.get("/metrics");
        let mut values = answer.text().lines().filter_map(|line| line.rsplit_once(' '));
        values.find(|(known, _)| *known == series).map(|(_, value)| value.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the server's log:\n{}", self.log());
        }
    }
}
