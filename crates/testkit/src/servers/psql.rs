//! SQL from tests that have no driver at hand.

use std::process::Command;

use super::process;
use super::programs;

/// Runs SQL in the database at `url` and returns its rows as lines, columns divided by `|`. Several statements are one
/// transaction.
pub fn psql(url: &str, sql: &str) -> Result<String, String> {
    let mut command = Command::new(programs::postgresql("psql")?);
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]);
    // A server that stands still is reported, not waited for.
    process::run(command.env("PGCONNECT_TIMEOUT", "10").env("LC_ALL", "C"))
}
