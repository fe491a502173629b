//! Keeping all cores busy: processes that count, and end with us, by themselves or when they are told to.

use std::hint;
use std::io::{self, Read};
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::thread;

use crate::failure::{Failure, Result};
use crate::stopwatch::Stopwatch;

/// The longest that a busy process lasts, should nobody end it.
const SECONDS_MAX: u64 = 12 * 3_600;

/// One busy process per core. They end when this is dropped, and when the process that owns it ends in whatever way:
/// each holds the end of a pipe.
pub(super) struct Load(Vec<Child>);

impl Load {
    pub(super) fn start(own: &Path) -> Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut load = Self(Vec::new());
        for _ in 0..cores {
            let mut command = Command::new(own);
            command.args(["spin", &SECONDS_MAX.to_string()]).stdin(Stdio::piped());
            let child = command
                .spawn()
                .map_err(|error| Failure::new(format!("a busy process cannot be started ({error})")))?;
            load.0.push(child);
        }
        println!("test: {cores} processes keep the cores busy");
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps one core busy for so many seconds, or until standard input ends.
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
