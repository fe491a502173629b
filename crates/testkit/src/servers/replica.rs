//! A copy of a PostgreSQL server that follows it and can take its place.

use super::place::Place;
use super::postgres::Postgres;
use super::process::{run, unprivileged, wait_for};
use super::programs;
use super::psql::psql;

/// A synchronous replica: what its primary has confirmed is here too. While it is away, the primary confirms nothing.
pub struct Replica {
    server: Postgres,
}

impl Replica {
    /// Copies a running server, and lets it wait for the copy with every commit from now on.
    pub fn of(primary: &Postgres) -> Result<Self, String> {
        let place = Place::make("replica")?;
        let data = place.join("data");
        // A slot stays when its replica goes, so the number of slots makes a new name.
        let slots = primary.psql("select count(*) from pg_replication_slots")?;
        let mut backup = unprivileged(&programs::postgresql("pg_basebackup")?, &place.join(""))?;
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
        // The copy must not wait for replicas of its own, whatever its primary does.
        settings.push(("synchronous_standby_names".to_owned(), String::new()));
        let server = Postgres::on(place, settings)?;
        // Apart: the first does not run inside a transaction.
        primary.psql("alter system set synchronous_standby_names = '*'")?;
        primary.psql("select pg_reload_conf()")?;
        wait_for("the replica to be synchronous", || {
            let state = primary.psql("select state, sync_state from pg_stat_replication")?;
            Ok(state.lines().any(|line| line == "streaming|sync"))
        })?;
        Ok(Self { server })
    }

    /// The URL of its database `postgres`, before and after it is promoted.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The URL of a database, before and after it is promoted.
    pub fn url_for(&self, database: &str) -> String {
        self.server.url_for(database)
    }

    /// Makes it a server of its own that can be written to. Its primary should be down.
    pub fn promote(self) -> Result<Postgres, String> {
        let answer = psql(&self.url(), "select pg_promote(true, 60)")?;
        if answer == "t" { Ok(self.server) } else { Err(format!("the replica was not promoted: {answer}")) }
    }
}
