//! The workspace on disk: its root, and its text files with paths relative to the root.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Files and folders that contain nothing written by hand.
const SKIPPED: [&str; 5] = [".git", "artifacts", "corpus", "node_modules", "target"];

/// The folder of the workspace's `Cargo.toml`.
pub(crate) struct Workspace {
    root: PathBuf,
}

/// A text file. The path is relative to the root of the workspace and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// The lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

impl Workspace {
    /// Finds the workspace from the variable that `cargo run` sets.
    pub(crate) fn locate() -> Result<Self> {
        env::var_os("CARGO_MANIFEST_DIR")
            .and_then(|folder| PathBuf::from(folder).parent().map(Path::to_owned))
            .map(|root| Self { root })
            .ok_or_else(|| Failure::new("CARGO_MANIFEST_DIR is not set: run this as `cargo xtask <command>`"))
    }

    /// The workspace in this folder.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path))
            .map_err(|error| Failure::new(format!("cannot read {path} ({error}); restore it")))
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        fs::write(self.root.join(path), text)
            .map_err(|error| Failure::new(format!("cannot write {path} ({error})")))
    }

    /// All text files, ordered by path. Files that are not UTF-8 are skipped.
    pub(crate) fn files(&self) -> Result<Vec<File>> {
        let mut files = Vec::new();
        self.collect(&self.root, &mut files)
            .map_err(|error| Failure::new(format!("cannot list the workspace ({error})")))?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    fn collect(&self, folder: &Path, files: &mut Vec<File>) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // In a second work tree `.git` is a file.
            if SKIPPED.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.collect(&entry.path(), files)?;
            } else if kind.is_file() {
                let path = entry.path();
                if let Ok(text) = String::from_utf8(fs::read(&path)?) {
                    files.push(File { path: self.relative(&path), text });
                }
            }
        }
        Ok(())
    }

    fn relative(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_file_is_found_under_its_path() {
        let files = Workspace::locate().unwrap().files().unwrap();
        let here = files.iter().find(|file| file.path == "xtask/src/workspace.rs").unwrap();
        assert!(here.is_rust());
        assert_eq!(here.lines().next().unwrap().0, 1);
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
