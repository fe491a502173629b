//! Finds paths and hosts that belong to one machine and not to the repository. They are concatenated from parts, so
//! that this file does not contain them.

use super::Finding;
use crate::text::has_word;
use crate::workspace::File;

/// Starts of paths that exist on one machine only.
const FOLDERS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
/// Hosts of package registries.
const HOSTS: [&str; 4] =
    [concat!("crates", ".io"), concat!("npmjs", ".org"), concat!("pypi", ".org"), concat!("nuget", ".org")];
/// The public index in every lock file.
pub(super) const PUBLIC_INDEX: &str = concat!("github.com/rust-lang/crates", ".io-index");

pub(super) fn check(file: &File) -> Vec<Finding> {
    file.lines()
        .filter_map(|(number, line)| problem(line).map(|text| Finding::error(file, number, text)))
        .collect()
}

fn problem(line: &str) -> Option<String> {
    if let Some(folder) = FOLDERS.iter().find(|folder| starts_path(line, folder)) {
        return Some(format!(
            "`{folder}` is a path on one machine: write a path from the root of the workspace"
        ));
    }
    let line = line.replace(PUBLIC_INDEX, "");
    let host = HOSTS.iter().find(|host| has_word(&line, host))?;
    Some(format!("`{host}` is the host of a package registry: remove it"))
}

/// Whether `line` contains a path that starts with `folder`. A match inside a longer path, such as a route, does not
/// count.
fn starts_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        before.is_none_or(|before| before.is_whitespace() || "\"'`(<[=:,|".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_hosts_are_found() {
        for line in [
            format!("{}target", FOLDERS[0]),
            format!("let path = \"{}main\";", FOLDERS[1]),
            format!("see https://{}/x", HOSTS[0]),
        ] {
            assert!(problem(&line).is_some(), "{line}");
        }
    }

    #[test]
    fn routes_and_lock_files_pass() {
        for line in [
            format!("POST /v1{}", FOLDERS[1]),
            format!("..{}x", FOLDERS[1]),
            format!("source = \"registry+https://{PUBLIC_INDEX}\""),
        ] {
            assert_eq!(problem(&line), None, "{line}");
        }
    }
}
