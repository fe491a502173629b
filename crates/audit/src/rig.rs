//! A disk that simulates power cuts: ext4 in a file on XFS, both mounted through loop devices. A reflink copy of the
//! file contains what reached the disk, and nothing that was only in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, Violation};

const OUTER_BYTES: &str = "4G";
const INNER_BYTES: &str = "1G";

/// The mounted file systems. Dropping the rig unmounts them and removes all files.
pub(crate) struct Rig {
    root: PathBuf,
    mounted: Vec<PathBuf>,
}

impl Rig {
    /// Builds the rig in a directory, which must not exist. The error says what the machine lacks.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        check()?;
        let mut rig = Self { root: root.to_owned(), mounted: Vec::new() };
        for name in ["outer", "inner", "copy"] {
            fs::create_dir_all(root.join(name)).map_err(|error| Violation::new(error.to_string()))?;
        }
        let outer = root.join("outer.img");
        run("truncate", &["-s", OUTER_BYTES], &[&outer])?;
        run("mkfs.xfs", &["-q", "-m", "reflink=1"], &[&outer])?;
        rig.mount(&outer, "outer")?;
        let inner = root.join("outer/inner.img");
        run("truncate", &["-s", INNER_BYTES], &[&inner])?;
        run("mkfs.ext4", &["-q", "-F"], &[&inner])?;
        rig.mount(&inner, "inner")?;
        Ok(rig)
    }

    /// The store directory of the process under test.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("inner/store")
    }

    /// Copies the current contents of the disk.
    pub(crate) fn copy(&self) -> Result<()> {
        let [from, to] = ["outer/inner.img", "outer/copy.img"].map(|name| self.root.join(name));
        run("cp", &["--reflink=always"], &[&from, &to])
    }

    /// Mounts the copy, as after a power cut, and calls `work` with the store directory in it.
    pub(crate) fn with_copy<T>(&mut self, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let copy = self.root.join("outer/copy.img");
        self.mount(&copy, "copy")?;
        let outcome = work(&self.root.join("copy/store"))?;
        self.unmount()?;
        fs::remove_file(copy).map_err(|error| Violation::new(error.to_string()))?;
        Ok(outcome)
    }

    fn mount(&mut self, image: &Path, name: &str) -> Result<()> {
        let mount_point = self.root.join(name);
        run("mount", &["-o", "loop"], &[image, &mount_point])?;
        self.mounted.push(mount_point);
        Ok(())
    }

    /// Unmounts the latest mount.
    fn unmount(&mut self) -> Result<()> {
        self.mounted.pop().map_or(Ok(()), |mount_point| run("umount", &[], &[&mount_point]))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        while !self.mounted.is_empty() {
            if let Err(violation) = self.unmount() {
                eprintln!("{violation}");
            }
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Checks what the rig needs. Tries to install missing packages with apt-get.
fn check() -> Result<()> {
    let user = Command::new("id").arg("-u").output();
    if !user.is_ok_and(|user| user.stdout == b"0\n") {
        return Err(Violation::new("power cuts need root to mount loop devices: run as root"));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err(Violation::new("power cuts need loop devices, but /dev/loop-control does not exist"));
    }
    if present("mkfs.xfs") && present("mkfs.ext4") {
        return Ok(());
    }
    let _ = Command::new("apt-get").args(["install", "-y", "-qq", "xfsprogs", "e2fsprogs"]).status();
    if present("mkfs.xfs") && present("mkfs.ext4") {
        return Ok(());
    }
    Err(Violation::new("power cuts need mkfs.xfs and mkfs.ext4: install xfsprogs and e2fsprogs"))
}

fn present(program: &str) -> bool {
    Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success())
}

fn run(program: &str, options: &[&str], paths: &[&Path]) -> Result<()> {
    let output = Command::new(program).args(options).args(paths).output();
    let output = output.map_err(|error| Violation::new(format!("cannot start `{program}`: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Violation::new(format!("`{program}` failed: {why}")))
}
