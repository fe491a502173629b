//! SQL for tests without a database driver.

use std::process::Command;

use super::process;
use super::programs;

/// Runs SQL in the database at `url` and returns its rows as lines with columns separated by `|`. Several statements
/// form one transaction.
pub fn psql(url: &str, sql: &str) -> Result<String, String> {
    let mut command = Command::new(programs::postgresql("psql")?);
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]);
    // A server that does not respond is an error after 10 s.
    process::run(command.env("PGCONNECT_TIMEOUT", "10").env("LC_ALL", "C"))
}
