//! The directory for the files of a run, next to the executable; removed when the run ends.

use std::path::{Path, PathBuf};

pub(crate) struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Creates the directory next to the executable: build directories are on a real disk, system temporary directories
    /// often are not.
    pub(crate) fn create() -> Self {
        let executable = std::env::current_exe().expect("the path of the executable is known");
        let path = executable.with_file_name(format!("oncebox-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory next to the executable can be created");
        Self { path }
    }

    /// A new directory for one store.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory can be created");
        path
    }

    /// Describes the location and the file system.
    pub(crate) fn file_system(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let holding = fields.filter(|fields| fields.len() > 2 && self.path.starts_with(fields[1]));
        let kind = holding.max_by_key(|fields| fields[1].len()).map_or("unknown", |fields| fields[2]);
        let kind = if kind == "overlay" { "overlay (underlying file system unknown)" } else { kind };
        let memory = if kind == "tmpfs" { " (memory, not a disk: the figures are meaningless)" } else { "" };
        format!("next to the executable, on {kind}{memory}")
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Bytes of all files in a directory.
pub(crate) fn bytes_in(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
