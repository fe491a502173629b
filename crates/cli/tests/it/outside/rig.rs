//! A server per test: the real binary on a free port, with temporary data that is removed with the test.

use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::park_timeout;
use std::time::Duration;

use oncebox_testkit::servers::{Database, Postgres};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use super::http::{Answer, Connection, Request, TIMEOUT};
use crate::rig::oncebox_under;

/// Maximum number of polls of a condition, with [`Server::pause`] between them.
const POLLS_MAX: usize = 3_000;

/// Pause between two polls of a process or its log.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSES_MAX: u128 = TIMEOUT.as_millis() / PAUSE.as_millis();

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Embedded,
    Postgres,
}

/// Storage that is removed with the test: a directory, and a database once it is needed.
pub(crate) struct TestStorage {
    directory: TempDir,
    database: OnceLock<Database<'static>>,
}

impl TestStorage {
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The URL of a store, which is empty at first.
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

pub(crate) type SharedStorage = Arc<TestStorage>;

pub(crate) fn new_storage() -> SharedStorage {
    let directory = TempDir::new().expect("a directory");
    Arc::new(TestStorage { directory, database: OnceLock::new() })
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    storage: SharedStorage,
    pub(crate) address: String,
    /// A file, not a pipe: lines that the server wrote before a response can be read when the response arrives.
    log: NamedTempFile,
}

/// Runs a test on each kind of store; `set` has settings such as `mailbox.shards=1`.
pub(crate) fn on_every_store(set: &[&str], test: impl Fn(Server)) {
    on_each(&[Store::Memory, Store::Embedded, Store::Postgres], |store| test(Server::start(store, set)));
}

/// Runs a test on the stores that need no other server, for behaviour that does not depend on the store.
pub(crate) fn on_own_stores(set: &[&str], test: impl Fn(Server)) {
    on_each(&[Store::Memory, Store::Embedded], |store| test(Server::start(store, set)));
}

/// Runs a test on each kind of durable store.
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
        Self::start_in(new_storage(), store, set)
    }

    /// Starts a server on existing storage.
    pub(crate) fn start_in(storage: SharedStorage, store: Store, set: &[&str]) -> Self {
        let url = storage.url(store);
        Self::start_with(storage, &["--store", &url], set)
    }

    pub(crate) fn start_with(storage: SharedStorage, arguments: &[&str], set: &[&str]) -> Self {
        Self::start_under(&[], storage, arguments, set)
    }

    /// The same, started by another program, which must `exec` the server.
    pub(crate) fn start_under(
        wrapper: &[&str],
        storage: SharedStorage,
        arguments: &[&str],
        set: &[&str],
    ) -> Self {
        let mut command =
            oncebox_under(wrapper, &["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        command.args(["--set", "admin.listen=127.0.0.1:0"]);
        let settings = std::env::vars_os().map(|(name, _)| name);
        for name in settings.filter(|name| name.to_string_lossy().starts_with("ONCEBOX__")) {
            command.env_remove(name);
        }
        let (work, temporary) = (storage.path().join("work"), storage.path().join("tmp"));
        for directory in [&work, &temporary] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        command.args(arguments).args(set.iter().flat_map(|set| ["--set", *set]));
        command.current_dir(work).env("TMPDIR", temporary);
        let log = NamedTempFile::new().expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen().expect("a file"));
        let child = command.spawn().expect("the binary runs");
        let mut server = Self { child, storage, address: String::new(), log };
        let listening = server.wait_for_line("\"address\":\"http");
        let listening: Value = serde_json::from_str(&listening).expect("a line is JSON");
        let url = listening["address"].as_str().expect("an address");
        server.address = url.split_once("://").expect("a URL").1.to_owned();
        server
    }

    /// The address for operators.
    pub(crate) fn admin_address(&self) -> String {
        let line = self.admin_address_line();
        let line: Value = serde_json::from_str(&line).expect("a line is JSON");
        line["admin"].as_str().expect("an address")["http://".len()..].to_owned()
    }

    /// The log line with the address for operators.
    pub(crate) fn admin_address_line(&self) -> String {
        self.wait_for_line("listening for operator")
    }

    /// The directory of its storage.
    pub(crate) fn path(&self) -> &Path {
        self.storage.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log_path(&self) -> &Path {
        self.log.path()
    }

    /// The log, in complete lines.
    pub(crate) fn log(&self) -> String {
        let mut log = std::fs::read_to_string(self.log.path()).expect("a log in UTF-8");
        log.truncate(log.rfind('\n').map_or(0, |end| end + 1));
        log
    }

    /// Waits for a log line that contains a text.
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        for _ in 0..PAUSES_MAX {
            let exited = self.has_exited();
            if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            if exited {
                break;
            }
            park_timeout(PAUSE);
        }
        panic!("no log line contains {text:?}:\n{}", self.log());
    }

    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), options).expect("the process is a child").is_some()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) -> SharedStorage {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("the server exited");
        Arc::clone(&self.storage)
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Waits until the process exits by itself.
    pub(crate) fn wait_for_exit(mut self) -> (ExitStatus, SharedStorage) {
        let exited = (0..PAUSES_MAX).any(|_| {
            let exited = self.has_exited();
            if !exited {
                park_timeout(PAUSE);
            }
            exited
        });
        assert!(exited, "the server does not exit");
        (self.child.wait().expect("the server exited"), Arc::clone(&self.storage))
    }

    /// Stops the server, which must exit with code 0.
    pub(crate) fn stop(self) -> SharedStorage {
        self.terminate();
        let (status, storage) = self.wait_for_exit();
        assert_eq!(status.code(), Some(0));
        storage
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

    /// Waits a little, by receiving from a topic without messages.
    pub(crate) fn pause(&self) {
        self.post("/v1/recv", &json!({"topic": "nobody-sends-here", "wait_ms": 20})).ok();
    }

    /// Polls until there is a value.
    #[track_caller]
    pub(crate) fn eventually<T>(&self, poll: impl Fn() -> Option<T>) -> T {
        self.try_eventually(POLLS_MAX, poll).expect("the condition becomes true before the last poll")
    }

    /// Polls at most `polls_max` times; `None` if there was never a value.
    pub(crate) fn try_eventually<T>(&self, polls_max: usize, poll: impl Fn() -> Option<T>) -> Option<T> {
        (0..polls_max).find_map(|_| {
            let found = poll();
            if found.is_none() {
                self.pause();
            }
            found
        })
    }

    /// The value of a metric with exactly these labels, as text; `None` if it is not exposed.
    pub(crate) fn metric(&self, series: &str) -> Option<String> {
        let answer = self.get("/metrics");
        let mut values = answer.text().lines().filter_map(|line| line.rsplit_once(' '));
        values.find(|(known, _)| *known == series).map(|(_, value)| value.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("server log:\n{}", self.log());
        }
    }
}
