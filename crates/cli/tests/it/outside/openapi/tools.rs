//! Tools in other languages, installed from the public registries, once per version, under the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tool and how it is installed.
pub(super) struct Tools {
    pub(super) name: &'static str,
    /// Names and contents of the files that pin the versions.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The commands that install it, run in the installation directory.
    pub(super) commands: &'static [&'static [&'static str]],
}

/// Installs Python packages from `requirements.txt`.
pub(super) const PIP: &[&[&str]] = &[
    &["python3", "-m", "venv", "."],
    &["./bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"],
];
/// Installs Node packages from the lock file.
pub(super) const NPM: &[&[&str]] =
    &[&["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]];

impl Tools {
    /// The installation directory; installs the tool if needed.
    #[track_caller]
    pub(super) fn provide(&self) -> PathBuf {
        let mut hash = blake3::Hasher::new();
        for (name, content) in self.files {
            hash.update(name.as_bytes()).update(content.as_bytes());
        }
        let version = hash.finalize().to_hex();
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let directory = base.join(format!("{}-{}", self.name, &version[..16]));
        // Other test processes may install it concurrently. The lock ends with the file handle.
        let lock = File::create(directory.with_extension("lock")).expect("a lock file");
        lock.lock().expect("a lock");
        let complete = directory.join("complete");
        if !complete.is_file() {
            // Removes an interrupted installation.
            let _ = fs::remove_dir_all(&directory);
            self.install(&directory);
            fs::write(complete, "").expect("a file");
        }
        directory
    }

    #[track_caller]
    fn install(&self, directory: &Path) {
        fs::create_dir_all(directory).expect("a directory");
        for (name, content) in self.files {
            fs::write(directory.join(name), content).expect("a file");
        }
        for command_line in self.commands {
            let mut command = Command::new(command_line[0]);
            command.args(&command_line[1..]).current_dir(directory);
            if let Err(output) = try_run(&mut command) {
                panic!(
                    "cannot install {} with `{}`: the tests need python3 with venv, node and npm, which \
                     `cargo xtask test` installs, and for the first run access to PyPI and the npm registry\n{output}",
                    self.name,
                    command_line.join(" ")
                );
            }
        }
    }
}

/// Runs a command that must succeed; returns its stdout.
#[track_caller]
pub(super) fn run(command: &mut Command) -> String {
    try_run(command).unwrap_or_else(|output| panic!("{command:?} failed\n{output}"))
}

fn try_run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    if output.status.success() { Ok(stdout) } else { Err(stdout + &text(&output.stderr)) }
}
