//! The server that is fuzzed: on throwaway data, at a free port, killed at the end.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::failure::{Failure, Result};

/// Messages die early and come again at once, so that dead letters and repeats are seen.
const SETTINGS: [&str; 3] =
    ["mailbox.topic.attempts_max=2", "mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=2ms"];
/// How often the log is looked at for the address, and with which pauses.
const LOOKS_MAX: u32 = 1_200;
const PAUSE: Duration = Duration::from_millis(50);

/// A running server; dropping it kills it.
pub(super) struct Server {
    process: Child,
    pub(super) url: String,
}

impl Server {
    pub(super) fn start(program: &Path, data: &Path) -> Result<Self> {
        let log = data.with_extension("log");
        let cannot = |error| Failure::new(format!("the server cannot be started ({error})"));
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        command.args(["--set", "admin.listen=off"]);
        command.args(["--store", &format!("embedded:{}", data.display())]);
        for setting in SETTINGS {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).map_err(cannot)?);
        let process = command.spawn().map_err(cannot)?;
        let mut server = Self { process, url: String::new() };
        for _ in 0..LOOKS_MAX {
            server.must_live()?;
            if let Some(url) = fs::read_to_string(&log).ok().as_deref().and_then(address) {
                url.clone_into(&mut server.url);
                return Ok(server);
            }
            std::thread::park_timeout(PAUSE);
        }
        Err(Failure::new(format!("the server does not say that it listens: see {}", log.display())))
    }

    pub(super) fn must_live(&mut self) -> Result<()> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(Failure::new(format!("the server ended by itself ({ended:?})"))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the log says that the server listens.
fn address(log: &str) -> Option<&str> {
    let line = log.lines().find(|line| line.contains(r#""message":"listening""#))?;
    line.split_once(r#""address":""#)?.1.split_once('"').map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_address_is_found_in_the_log() {
        let log = "{\"message\":\"local mode\"}\n{\"message\":\"listening\",\"address\":\"http://127.0.0.1:9\",\"x\":1}\n";
        assert_eq!(address(log), Some("http://127.0.0.1:9"));
        assert_eq!(address("{\"message\":\"listening\""), None);
    }
}
