//! Keeps all cores busy with processes that spin.

use std::hint;
use std::io::{self, Read};
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::thread;

use crate::failure::{Failure, Result};
use crate::stopwatch::Stopwatch;

/// Time limit of a busy process.
const SECONDS_MAX: u64 = 12 * 3_600;

/// One busy process per core. They end when this is dropped, and also when the owning process dies, as their standard
/// input is a pipe from it.
pub(super) struct Load(Vec<Child>);

impl Load {
    pub(super) fn start(xtask: &Path) -> Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut load = Self(Vec::new());
        for _ in 0..cores {
            let mut command = Command::new(xtask);
            command.args(["spin", &SECONDS_MAX.to_string()]).stdin(Stdio::piped());
            let child = command
                .spawn()
                .map_err(|error| Failure::new(format!("cannot start a busy process ({error})")))?;
            load.0.push(child);
        }
        println!("test: {cores} processes keep the cores busy");
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps one core busy until standard input ends, for at most `seconds`.
pub(crate) fn spin(seconds: u64) -> ! {
    thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        process::exit(0);
    });
    let watch = Stopwatch::start();
    while watch.elapsed().as_secs() < seconds {
        for _ in 0..1_000_000 {
            hint::spin_loop();
        }
    }
    process::exit(0);
}
