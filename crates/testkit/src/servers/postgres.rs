//! A private PostgreSQL server.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::database::{Database, Pool};
use super::directory::ServerDirectory;
use super::port::on_free_port;
use super::process::{Process, run, unprivileged};
use super::programs;
use super::psql::psql;
use super::template;

/// As in production, except for the sizes. Nothing here weakens durability.
const SETTINGS: [(&str, &str); 5] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "200"),
    ("shared_buffers", "64MB"),
    ("max_prepared_transactions", "0"),
];

/// Where the server expects its certificate, and how to create one.
const CERTIFICATE: &str = "server.crt";
const CERTIFICATE_ARGUMENTS: [&str; 15] = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "7",
    "-subj",
    "/CN=oncebox",
    "-addext",
    "subjectAltName=IP:127.0.0.1",
    "-addext",
    "basicConstraints=critical,CA:FALSE",
];

/// A PostgreSQL server on the loopback interface, with a superuser `postgres` without a password. It ends with this
/// value or with the process, whichever is first, and its files are removed.
pub struct Postgres {
    /// None while it is down. Declared before the directory, so that it ends before its files are removed.
    process: Option<Process>,
    directory: ServerDirectory,
    port: u16,
    settings: Vec<(String, String)>,
    used: Pool,
}

impl Postgres {
    /// Starts a new, empty server.
    pub fn start() -> Result<Self, String> {
        Self::with(&[])
    }

    /// Starts a new, empty server with additional or different settings.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self, String> {
        let directory = ServerDirectory::make("postgres")?;
        template::copy_to(&directory.join("data"))?;
        Self::on(
            directory,
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    /// Starts a new, empty server that also supports TLS, with a self-signed certificate: [`Self::certificate`].
    pub fn with_tls() -> Result<Self, String> {
        let directory = ServerDirectory::make("postgres")?;
        let data = directory.join("data");
        template::copy_to(&data)?;
        let mut openssl = unprivileged(&programs::on_path("openssl", "openssl")?, &data)?;
        run(openssl.args(CERTIFICATE_ARGUMENTS).args(["-keyout", "server.key", "-out", CERTIFICATE]))?;
        Self::on(directory, vec![("ssl".to_owned(), "on".to_owned())])
    }

    /// Starts a server on existing data.
    pub(super) fn on(directory: ServerDirectory, settings: Vec<(String, String)>) -> Result<Self, String> {
        let mut server = Self { process: None, directory, port: 0, settings, used: Pool::default() };
        on_free_port(|port| {
            server.port = port;
            server.restart()
        })?;
        Ok(server)
    }

    /// The server that all tests of this process share. It is started on first use, and ends with the process.
    pub fn shared() -> Result<&'static Self, String> {
        static SHARED: OnceLock<Result<Postgres, String>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref().map_err(Clone::clone)
    }

    /// The URL of the database `postgres`.
    pub fn url(&self) -> String {
        self.url_for("postgres")
    }

    /// The URL of a database on this server.
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Its port on 127.0.0.1; the same one after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its log.
    pub fn log_file(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Its data directory. It belongs to `nobody` if this process runs as root.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The certificate of a server with TLS. It is valid for 127.0.0.1.
    pub fn certificate(&self) -> PathBuf {
        self.data_dir().join(CERTIFICATE)
    }

    /// Runs SQL in the database `postgres`; see [`psql`].
    pub fn psql(&self, sql: &str) -> Result<String, String> {
        psql(&self.url(), sql)
    }

    /// Creates a new, empty database and returns its URL. It takes about 7 MB on disk, and stays for as long as the
    /// server.
    pub fn fresh_database(&self) -> Result<String, String> {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let name = format!("fresh_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        self.psql(&format!("create database {name} template template0"))?;
        Ok(self.url_for(&name))
    }

    /// Lends an empty database: one that another test has returned, or a new one.
    pub fn lend_database(&self) -> Result<Database<'_>, String> {
        self.used.lend(|| self.fresh_database())
    }

    /// Stops it with `pg_ctl stop -m immediate`: sessions are terminated, nothing is flushed, and the next start
    /// recovers from the write-ahead log.
    pub fn stop_immediately(&mut self) -> Result<(), String> {
        self.process.take().map_or(Ok(()), |process| process.end_by("QUIT"))
    }

    /// Kills all of its processes at the same moment.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Stops all of its processes: connections stay open, and nothing responds until [`Self::thaw`].
    pub fn freeze(&self) {
        self.process.iter().for_each(Process::freeze);
    }

    /// Stops the process that accepts connections: open connections work, and new ones wait until [`Self::thaw`].
    pub fn freeze_listener(&self) {
        self.process.iter().for_each(Process::freeze_alone);
    }

    /// Resumes it after [`Self::freeze`] or [`Self::freeze_listener`].
    pub fn thaw(&self) {
        self.process.iter().for_each(Process::thaw);
    }

    /// Starts it again after [`Self::stop_immediately`] or [`Self::kill`], with the same data on the same port.
    pub fn restart(&mut self) -> Result<(), String> {
        drop(self.process.take());
        let data = self.data_dir();
        let mut command = unprivileged(&programs::postgresql("postgres")?, &data)?;
        command.arg("-D").arg(&data).arg("-p").arg(self.port.to_string());
        let usual = SETTINGS.map(|(name, value)| format!("{name}={value}"));
        let own = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        for setting in usual.into_iter().chain(own) {
            command.arg("-c").arg(setting);
        }
        let mut process = Process::start(command, self.directory.join("log"))?;
        process.wait_until(|| responds(&self.url(), &data))?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }
}

/// Whether the server on `data` responds at `url`; another server may have taken the port first.
pub(super) fn responds(url: &str, data: &Path) -> Result<(), String> {
    let found = psql(url, "show data_directory")?;
    if Path::new(&found) == data { Ok(()) } else { Err(format!("another server responds at {url}")) }
}
