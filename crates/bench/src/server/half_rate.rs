//! The latency from the planned send time to the receipt of a message, at half of the server's maximum rate.

use super::job::{Load, Outcome, Peer, Style, Task};
use super::process::Server;
use crate::embedded::work_dir::WorkDir;
use crate::pairs::median;
use crate::report::Report;

const CONNECTIONS: [usize; 2] = [16, 64];
/// Half of the connections send, half receive.
const PACED: Load = Load { connections: 64, batch: 1, style: Style::Work };
const ROUNDS: usize = 3;

/// `seconds` is how long each search for the maximum rate sends; the paced rounds take five times as long.
pub(super) fn run(work_dir: &WorkDir, seconds: f64, report: &mut Report) -> Result<(), String> {
    let server = Server::start(work_dir, Peer::Oncebox)?;
    let mut highest = 0.0_f64;
    for connections in CONNECTIONS {
        let load = Load { connections, ..PACED };
        highest = highest.max(server.load(load, Task::Lifecycle, seconds)?.per_second);
    }
    let per_second = highest / 2.0;
    println!(
        "\nhalf the maximum rate of unbatched lifecycles: {per_second:.0}/s, latency from the planned send time to the receipt"
    );
    let mut p95_ms = Vec::new();
    for _ in 0..ROUNDS {
        let task = Task::Paced { per_second };
        let Outcome { per_second, latency, .. } = server.load(PACED, task, seconds * 5.0)?;
        println!("  {per_second:.0}/s, p50/p95/p99/longest {latency} µs");
        p95_ms.push(latency.p95 / 1_000.0);
    }
    report.figure("server.half_rate.p95_ms", median(p95_ms));
    Ok(())
}
