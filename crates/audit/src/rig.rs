//! A disk whose power can be cut: ext4 in a file on XFS, both mounted by loop. A copy of the file that shares its blocks
//! holds what reached the disk and nothing that was only in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Fault, Result};

const OUTER_BYTES: &str = "4G";
const INNER_BYTES: &str = "1G";

/// The mounted file systems; dropping it unmounts them and removes everything.
pub(crate) struct Rig {
    root: PathBuf,
    mounted: Vec<PathBuf>,
}

impl Rig {
    /// Builds it in a directory, which must not exist. Fails with what is missing.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        check()?;
        let mut rig = Self { root: root.to_owned(), mounted: Vec::new() };
        for name in ["outer", "inner", "copy"] {
            fs::create_dir_all(root.join(name)).map_err(|error| Fault::new(error.to_string()))?;
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

    /// Where the store of the process under test goes.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("inner/store")
    }

    /// Takes what the disk holds at this moment.
    pub(crate) fn copy(&self) -> Result<()> {
        let [from, to] = ["outer/inner.img", "outer/copy.img"].map(|name| self.root.join(name));
        run("cp", &["--reflink=always"], &[&from, &to])
    }

    /// Mounts the copy, as after a power cut, and calls with where the store is in it.
    pub(crate) fn with_copy<T>(&mut self, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let copy = self.root.join("outer/copy.img");
        self.mount(&copy, "copy")?;
        let outcome = work(&self.root.join("copy/store"))?;
        self.unmount()?;
        fs::remove_file(copy).map_err(|error| Fault::new(error.to_string()))?;
        Ok(outcome)
    }

    fn mount(&mut self, image: &Path, name: &str) -> Result<()> {
        let place = self.root.join(name);
        run("mount", &["-o", "loop"], &[image, &place])?;
        self.mounted.push(place);
        Ok(())
    }

    /// Unmounts what was mounted last.
    fn unmount(&mut self) -> Result<()> {
        self.mounted.pop().map_or(Ok(()), |place| run("umount", &[], &[&place]))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        while !self.mounted.is_empty() {
            if let Err(fault) = self.unmount() {
                eprintln!("{fault}");
            }
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Says what is missing for the rig. Installs the two packages where that is simple.
fn check() -> Result<()> {
    let user = Command::new("id").arg("-u").output();
    if !user.is_ok_and(|user| user.stdout == b"0\n") {
        return Err(Fault::new("power cuts need root, to mount file systems by loop: run it as root"));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err(Fault::new("power cuts need loop devices, and this machine has no /dev/loop-control"));
    }
    if present("mkfs.xfs") && present("mkfs.ext4") {
        return Ok(());
    }
    let _ = Command::new("apt-get").args(["install", "-y", "-qq", "xfsprogs", "e2fsprogs"]).status();
    if present("mkfs.xfs") && present("mkfs.ext4") {
        return Ok(());
    }
    Err(Fault::new("power cuts need mkfs.xfs and mkfs.ext4: install xfsprogs and e2fsprogs"))
}

fn present(program: &str) -> bool {
    Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success())
}

fn run(program: &str, options: &[&str], paths: &[&Path]) -> Result<()> {
    let output = Command::new(program).args(options).args(paths).output();
    let output = output.map_err(|error| Fault::new(format!("`{program}` cannot be started: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Fault::new(format!("`{program}` failed: {why}")))
}
