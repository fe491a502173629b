//! PgBouncer in front of a PostgreSQL server.

use std::path::Path;

use super::directory::ServerDirectory;
use super::port::on_free_port;
use super::postgres::{Postgres, responds};
use super::process::{Process, unprivileged};
use super::programs;

/// A connection pooler in transaction mode, as hosted databases use it: each transaction of a client may run in another
/// session of the server. It ends with this value or with the process.
pub struct PgBouncer {
    _process: Process,
    _directory: ServerDirectory,
    port: u16,
}

impl PgBouncer {
    /// Starts a pooler in front of a server.
    pub fn start(server: &Postgres) -> Result<Self, String> {
        let directory = ServerDirectory::make("pgbouncer")?;
        let (process, port) = on_free_port(|port| {
            let users = directory.write("users", "\"postgres\" \"\"\n")?;
            let file = directory.write("pgbouncer.ini", &settings(server.port(), port, &users))?;
            let mut command =
                unprivileged(&programs::on_path("pgbouncer", "pgbouncer")?, &directory.join(""))?;
            command.arg(&file);
            let mut process = Process::start(command, directory.join("log"))?;
            process.wait_until(|| responds(&url(port, "postgres"), &server.data_dir()))?;
            Ok((process, port))
        })?;
        Ok(Self { _process: process, _directory: directory, port })
    }

    /// The URL of a database of the server, through the pooler.
    pub fn url_for(&self, database: &str) -> String {
        url(self.port, database)
    }
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}

/// Many drivers send `extra_float_digits`, so poolers in production accept it.
fn settings(server: u16, port: u16, users: &Path) -> String {
    let users = users.display();
    format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = trust\nauth_file = {users}\nadmin_users = postgres\npool_mode = transaction\n\
         max_client_conn = 1000\ndefault_pool_size = 20\nignore_startup_parameters = extra_float_digits\n"
    )
}
