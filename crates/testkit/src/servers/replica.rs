//! A replica of a PostgreSQL server, which can be promoted.

use super::directory::ServerDirectory;
use super::postgres::Postgres;
use super::process::{run, unprivileged, wait_for};
use super::programs;
use super::psql::psql;

/// A synchronous replica: it has everything that its primary has confirmed. While it is down, the primary confirms
/// nothing.
pub struct Replica {
    server: Postgres,
}

impl Replica {
    /// Creates a replica of a running server, which waits for the replica with every commit from now on.
    pub fn of(primary: &Postgres) -> Result<Self, String> {
        let directory = ServerDirectory::make("replica")?;
        let data = directory.join("data");
        // A slot outlives its replica, so the number of slots makes a new name.
        let slots = primary.psql("select count(*) from pg_replication_slots")?;
        let mut backup = unprivileged(&programs::postgresql("pg_basebackup")?, &directory.join(""))?;
        backup.args(["-h", "127.0.0.1", "-p", &primary.port().to_string(), "-U", "postgres"]);
        backup.args([
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
            "-C",
            "-S",
            &format!("replica_{slots}"),
        ]);
        run(backup.arg("-D").arg(&data))?;
        let mut settings = primary.settings().to_vec();
        // The replica must not wait for replicas of its own, whatever its primary does.
        settings.push(("synchronous_standby_names".to_owned(), String::new()));
        let server = Postgres::on(directory, settings)?;
        // In a separate call, because it cannot run inside a transaction.
        primary.psql("alter system set synchronous_standby_names = '*'")?;
        primary.psql("select pg_reload_conf()")?;
        wait_for("the replica to be synchronous", || {
            let state = primary.psql("select state, sync_state from pg_stat_replication")?;
            Ok(state.lines().any(|line| line == "streaming|sync"))
        })?;
        Ok(Self { server })
    }

    /// The URL of its database `postgres`, before and after promotion.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The URL of a database, before and after promotion.
    pub fn url_for(&self, database: &str) -> String {
        self.server.url_for(database)
    }

    /// Promotes it to a writable server. Its primary should be down.
    pub fn promote(self) -> Result<Postgres, String> {
        let answer = psql(&self.url(), "select pg_promote(true, 60)")?;
        if answer == "t" { Ok(self.server) } else { Err(format!("the replica was not promoted: {answer}")) }
    }
}
