//! Real servers: they start, crash, restart, replicate, and leave no files behind.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{PgBouncer, Postgres, Replica, psql};

/// The maximum number of polls for a condition.
const POLLS_MAX: usize = 3_000;

#[test]
fn fresh_databases_are_empty_and_independent() -> TestResult {
    let server = Postgres::shared()?;
    let (one, other) = (server.fresh_database()?, server.fresh_database()?);
    psql(&one, "create table fruit (name text); insert into fruit values ('apple'), ('pear')")?;
    assert_eq!(psql(&one, "select name from fruit order by name")?, "apple\npear");
    let refused = psql(&other, "select name from fruit").unwrap_err();
    assert!(refused.contains("\"fruit\" does not exist"), "{refused}");
    assert_eq!(server.psql("select 1")?, "1");
    Ok(())
}

#[test]
fn a_reused_database_is_empty() -> TestResult {
    let server = Postgres::start()?;
    let first = server.lend_database()?;
    let url = first.url().to_owned();
    psql(&url, "create table fruit (name text); create schema shop; create table shop.fruit (name text)")?;
    let mut idle = Command::new("psql")
        .args(["-X", "-q", "-d", &url])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut typed = idle.stdin.take().unwrap();
    writeln!(typed, "begin; lock table fruit;")?;
    let locks = "select count(*) from pg_locks where mode = 'AccessExclusiveLock'";
    assert!((0..POLLS_MAX).any(|_| psql(&url, locks).is_ok_and(|count| count != "0")));
    drop(first);
    let (second, third) = (server.lend_database()?, server.lend_database()?);
    assert_eq!(second.url(), url);
    assert_ne!(third.url(), url);
    let tables =
        "select count(*) from pg_class where relnamespace >= 16384 or relnamespace = 'public'::regnamespace";
    assert_eq!(psql(&url, tables)?, "0");
    psql(&url, "create table fruit (name text)")?;
    drop(typed);
    idle.wait()?;
    Ok(())
}

#[test]
fn commits_survive_an_immediate_stop_and_a_kill() -> TestResult {
    let mut server = Postgres::with(&[("work_mem", "5MB")])?;
    let url = server.url();
    assert_eq!(server.psql("show fsync")?, "on");
    assert_eq!(server.psql("show work_mem")?, "5MB");
    server.psql("create table fruit (name text); insert into fruit values ('apple')")?;
    server.stop_immediately()?;
    assert!(server.psql("select 1").is_err());
    server.restart()?;
    server.psql("insert into fruit values ('pear')")?;
    server.kill();
    assert!(server.psql("select 1").is_err());
    server.restart()?;
    assert_eq!(psql(&url, "select count(*) from fruit")?, "2");
    Ok(())
}

#[test]
fn a_pooler_serves_every_database() -> TestResult {
    let server = Postgres::shared()?;
    let database = server.fresh_database()?;
    let name = database.rsplit('/').next().unwrap();
    let pooler = PgBouncer::start(server)?;
    assert_ne!(pooler.url_for(name), database);
    assert_eq!(psql(&pooler.url_for(name), "select current_database()")?, name);
    assert!(psql(&pooler.url_for("pgbouncer"), "show config")?.contains("\npool_mode|transaction|"));
    Ok(())
}

#[test]
fn a_promoted_replica_has_all_confirmed_commits() -> TestResult {
    let mut primary = Postgres::start()?;
    primary.psql("create table fruit (name text)")?;
    let replica = Replica::of(&primary)?;
    primary.psql("insert into fruit values ('apple')")?;
    assert!(psql(&replica.url(), "insert into fruit values ('pear')").unwrap_err().contains("read-only"));
    primary.kill();
    let promoted = replica.promote()?;
    promoted.psql("insert into fruit values ('pear')")?;
    assert_eq!(promoted.psql("select name from fruit order by name")?, "apple\npear");
    Ok(())
}

/// Runs itself as another process that starts a server and does not clean up.
#[test]
fn a_server_and_its_files_are_removed_with_the_process() -> TestResult {
    const ROLE: &str = "ONCEBOX_TEST_DIES";
    if std::env::var_os(ROLE).is_some() {
        let server = Postgres::shared()?;
        println!("\nat {} {}", server.url(), server.data_dir().display());
        loop {
            std::thread::park();
        }
    }
    let mut doomed = Command::new(std::env::current_exe()?);
    doomed.args(["--exact", "servers::a_server_and_its_files_are_removed_with_the_process", "--nocapture"]);
    let mut doomed = doomed.env(ROLE, "yes").stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(doomed.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|line| line.starts_with("at ")).ok_or("it did not start")?;
    let [_, url, data] = line.split(' ').collect::<Vec<_>>()[..] else { return Err(line.into()) };
    assert_eq!(psql(url, "select 1")?, "1");
    doomed.kill()?;
    doomed.wait()?;
    for _ in 0..POLLS_MAX {
        if !Path::new(data).exists() && psql(url, "select 1").is_err() {
            return Ok(());
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    Err(format!("{data} is still there").into())
}
