//! Where the files of a run lie: a directory beside the program, gone when the run ends.

use std::path::{Path, PathBuf};

pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes the directory beside the program: build directories lie on a real disk, the system's temporary ones often do not.
    pub(crate) fn make() -> Self {
        let program = std::env::current_exe().expect("the program knows where it lies");
        let path = program.with_file_name(format!("oncebox-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory beside the program can be made");
        Self { path }
    }

    /// A new directory for one store.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        path
    }

    /// The kind of file system that the files lie on.
    pub(crate) fn kind(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let holding = fields.filter(|fields| fields.len() > 2 && self.path.starts_with(fields[1]));
        let kind = holding.max_by_key(|fields| fields[1].len()).map_or("unknown", |fields| fields[2]);
        let kind = if kind == "overlay" { "overlay, whatever lies beneath" } else { kind };
        let memory = if kind == "tmpfs" { " (memory, not a disk: the figures mean nothing)" } else { "" };
        format!("beside the program, on {kind}{memory}")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Bytes of all files in a directory.
pub(crate) fn bytes_in(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
