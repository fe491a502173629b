//! Programs of other languages: installed once per version under the target directory, from the public registries.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is installed, and what it is installed from.
pub(super) struct Tools {
    pub(super) name: &'static str,
    /// Names and contents of files that the installation reads: they say which versions.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The commands that install it, run in its directory.
    pub(super) commands: &'static [&'static [&'static str]],
}

/// The commands that install Python packages by their `requirements.txt`.
pub(super) const PIP: &[&[&str]] = &[
    &["python3", "-m", "venv", "."],
    &["./bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"],
];
/// The commands that install packages for Node by their lock file.
pub(super) const NPM: &[&[&str]] =
    &[&["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]];

impl Tools {
    /// The directory of the installation, which is made if it is not there yet.
    #[track_caller]
    pub(super) fn provide(&self) -> PathBuf {
        let mut hash = blake3::Hasher::new();
        for (name, content) in self.files {
            hash.update(name.as_bytes()).update(content.as_bytes());
        }
        let version = hash.finalize().to_hex();
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let directory = base.join(format!("{}-{}", self.name, &version[..16]));
        // Other test processes need it at the same time. The lock ends with the file's handle.
        let lock = File::create(directory.with_extension("lock")).expect("a lock file");
        lock.lock().expect("a lock");
        let complete = directory.join("complete");
        if !complete.is_file() {
            // What an interrupted installation has left.
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
        for words in self.commands {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).current_dir(directory);
            if let Err(said) = try_run(&mut command) {
                panic!(
                    "{} cannot be installed by `{}`. The tests need python3 with venv, node and npm, which \
                     `cargo xtask test` installs, and for the first run PyPI and the registry of npm in reach.\n{said}",
                    self.name,
                    words.join(" ")
                );
            }
        }
    }
}

/// Runs a command that must succeed; gives what it wrote.
#[track_caller]
pub(super) fn run(command: &mut Command) -> String {
    try_run(command).unwrap_or_else(|said| panic!("{command:?} fails\n{said}"))
}

fn try_run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    if output.status.success() { Ok(stdout) } else { Err(stdout + &text(&output.stderr)) }
}
