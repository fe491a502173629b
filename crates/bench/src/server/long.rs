//! Twenty minutes at full load, to check that the server's memory does not grow. Finished messages are kept for ten
//! minutes for repeated calls, so memory grows in the first half and must not grow in the second.

use std::time::Duration;

use oncebox_system::uptime;
use tokio::runtime::Builder;

use super::job::{Load, Peer, Style, Task};
use super::process::Server;
use crate::embedded::work_dir::WorkDir;
use crate::pairs::median;
use crate::report::Report;

const LOAD: Load = Load { connections: 64, batch: 1, style: Style::Work };
const SECONDS: f64 = 1_200.0;
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

pub(super) fn run(work_dir: &WorkDir, report: &mut Report) -> Result<(), String> {
    println!(
        "\n{SECONDS} s at full load: {} connections, each sends and works in turn, unbatched",
        LOAD.connections
    );
    let server = Server::start(work_dir, Peer::Oncebox)?;
    let load = server.spawn_load(LOAD, Task::Cycle, SECONDS)?;
    let runtime = Builder::new_current_thread().enable_time().build().expect("the runtime starts");
    let (start, mut samples) = (uptime(), Vec::new());
    while uptime().saturating_sub(start).as_secs_f64() + SAMPLE_EVERY.as_secs_f64() <= SECONDS {
        runtime.block_on(async { tokio::time::sleep(SAMPLE_EVERY).await });
        let mib = server.resident_mib().ok_or("the server has exited")?;
        println!("  {:>4.0} s {mib:>8.0} MiB", uptime().saturating_sub(start).as_secs_f64());
        samples.push(mib);
    }
    let rate = server.outcome(load)?.per_second;
    let late = &samples[samples.len() / 2..];
    let (least, most) =
        late.iter().fold((f64::MAX, 0.0_f64), |(least, most), mib| (least.min(*mib), most.max(*mib)));
    let (third, fourth) = late.split_at(late.len() / 2);
    println!(
        "{rate:.0} lifecycles/s; resident in the second half: {least:.0} to {most:.0} MiB, median {:.0}",
        median(late.to_vec())
    );
    report.figure("server.long.last_to_third_quarter", median(fourth.to_vec()) / median(third.to_vec()));
    Ok(())
}
