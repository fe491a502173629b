//! A PostgreSQL server of one's own.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::database::{Database, Pool};
use super::place::Place;
use super::port::on_free_port;
use super::process::{Process, run, unprivileged};
use super::programs;
use super::psql::psql;
use super::template;

/// As in production but for the sizes. Nothing here weakens durability.
const SETTINGS: [(&str, &str); 5] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "200"),
    ("shared_buffers", "64MB"),
    ("max_prepared_transactions", "0"),
];

/// Where the server looks for its certificate, and how one is made.
const CERTIFICATE: &str = "server.crt";
const CERTIFY: [&str; 15] = [
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

/// A PostgreSQL server on loopback, with a superuser `postgres` who needs no password. It ends with this value or with the
/// process, whichever comes first, and its files with it.
pub struct Postgres {
    /// None while it is down. Before the place: it ends before its files do.
    process: Option<Process>,
    place: Place,
    port: u16,
    settings: Vec<(String, String)>,
    used: Pool,
}

impl Postgres {
    /// Starts a new, empty server.
    pub fn start() -> Result<Self, String> {
        Self::with(&[])
    }

    /// Starts a new, empty server with settings beside or instead of the usual ones.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self, String> {
        let place = Place::make("postgres")?;
        template::copy_to(&place.join("data"))?;
        Self::on(
            place,
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    /// Starts a new, empty server that speaks TLS too, with a certificate that nobody has signed but itself:
    /// [`Self::certificate`].
    pub fn with_tls() -> Result<Self, String> {
        let place = Place::make("postgres")?;
        let data = place.join("data");
        template::copy_to(&data)?;
        let mut openssl = unprivileged(&programs::on_path("openssl", "openssl")?, &data)?;
        run(openssl.args(CERTIFY).args(["-keyout", "server.key", "-out", CERTIFICATE]))?;
        Self::on(place, vec![("ssl".to_owned(), "on".to_owned())])
    }

    /// Starts a server on the data that lies in a place.
    pub(super) fn on(place: Place, settings: Vec<(String, String)>) -> Result<Self, String> {
        let mut server = Self { process: None, place, port: 0, settings, used: Pool::default() };
        on_free_port(|port| {
            server.port = port;
            server.start_again()
        })?;
        Ok(server)
    }

    /// The server that all tests of this process share. It is started when it is first asked for, and ends with the process.
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

    /// What it writes about itself.
    pub fn log_file(&self) -> PathBuf {
        self.place.join("log")
    }

    /// Its data directory. It belongs to `nobody` if we are root.
    pub fn data_dir(&self) -> PathBuf {
        self.place.join("data")
    }

    /// The certificate of a server that speaks TLS. It is for 127.0.0.1.
    pub fn certificate(&self) -> PathBuf {
        self.data_dir().join(CERTIFICATE)
    }

    /// Runs SQL in the database `postgres`; see [`psql`].
    pub fn psql(&self, sql: &str) -> Result<String, String> {
        psql(&self.url(), sql)
    }

    /// Makes a new, empty database and returns its URL. It stays, with some 7 MB on disk, as long as the server does.
    pub fn fresh_database(&self) -> Result<String, String> {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let name = format!("fresh_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        self.psql(&format!("create database {name} template template0"))?;
        Ok(self.url_for(&name))
    }

    /// Lends an empty database: one that another test has given back, or else a new one.
    pub fn lend_database(&self) -> Result<Database<'_>, String> {
        self.used.lend(self)
    }

    /// Ends it as an operator in a hurry does (`pg_ctl stop -m immediate`): sessions are cut off, nothing is flushed, and the
    /// next start recovers from the log.
    pub fn stop_immediately(&mut self) -> Result<(), String> {
        self.process.take().map_or(Ok(()), |process| process.end_by("QUIT"))
    }

    /// Kills all of its processes at one moment.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Lets all of its processes stand still: connections stay open, and nothing answers until [`Self::thaw`].
    pub fn freeze(&self) {
        self.process.iter().for_each(Process::freeze);
    }

    /// Lets the process stand still that new connections come to: those that are open work, and others wait until [`Self::thaw`].
    pub fn freeze_listener(&self) {
        self.process.iter().for_each(Process::freeze_alone);
    }

    /// Lets it go on after [`Self::freeze`] or [`Self::freeze_listener`].
    pub fn thaw(&self) {
        self.process.iter().for_each(Process::thaw);
    }

    /// Starts it again after [`Self::stop_immediately`] or [`Self::kill`], with the same data on the same port.
    pub fn start_again(&mut self) -> Result<(), String> {
        drop(self.process.take());
        let data = self.data_dir();
        let mut command = unprivileged(&programs::postgresql("postgres")?, &data)?;
        command.arg("-D").arg(&data).arg("-p").arg(self.port.to_string());
        let usual = SETTINGS.map(|(name, value)| format!("{name}={value}"));
        let own = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        for setting in usual.into_iter().chain(own) {
            command.arg("-c").arg(setting);
        }
        let mut process = Process::start(command, self.place.join("log"))?;
        process.wait_until(|| answers(&self.url(), &data))?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }
}

/// Whether the server that works on `data` answers at `url`: it may be another one that was quicker to take the port.
pub(super) fn answers(url: &str, data: &Path) -> Result<(), String> {
    let found = psql(url, "show data_directory")?;
    if Path::new(&found) == data { Ok(()) } else { Err(format!("another server answers at {url}")) }
}
