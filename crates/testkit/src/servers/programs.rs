//! Finding the servers' programs.

use std::fs;
use std::path::PathBuf;

/// Debian has a directory per major version here, and only some of the programs on the path.
const VERSIONS: &str = "/usr/lib/postgresql";

/// A program of the newest installed PostgreSQL.
pub(super) fn postgresql(program: &str) -> Result<PathBuf, String> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let numbered =
        versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let complete = numbered.filter(|(_, path): &(u32, _)| path.join("bin/postgres").is_file());
    let newest = complete.max().map(|(_, path)| path.join("bin").join(program));
    newest.filter(|path| path.is_file()).map_or_else(|| on_path(program, "postgresql"), Ok)
}

/// A program on the path, or in a directory that is only on root's path.
pub(super) fn on_path(program: &str, package: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    let found = directories.find_map(|directory| Some(directory.join(program)).filter(|path| path.is_file()));
    found.ok_or_else(|| {
        format!(
            "{program} is not here, and this test needs it: run `cargo xtask test`, which installs it, or \
             `apt-get install --no-install-recommends {package}`"
        )
    })
}
