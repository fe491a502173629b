//! Our server over HTTP, against real rivals and against an endpoint that does nothing. Every server and the load run
//! in separate processes. One lifecycle is send + receive + ack, each confirmed.

mod bare;
mod cell;
mod client;
mod half_rate;
mod job;
mod load;
mod long;
mod plot;
mod process;
mod programs;

use std::process::ExitCode;

use cell::{Cell, Row};
use job::{Load, PAYLOAD_BYTES, Peer, Style, Task};
use plot::Group;

use crate::embedded::work_dir::WorkDir;
use crate::options::Options;
use crate::pairs::median;
use crate::report::Report;

const RIVALS: [Peer; 3] = [Peer::Beanstalkd, Peer::Redis, Peer::Nats];

/// Name in the figures, title in the chart, and the load.
const LOADS: [(&str, &str, Load); 3] = [
    ("unbatched16", "16 connections, one message per call", worked(16, 1)),
    ("unbatched64", "64 connections, one message per call", worked(64, 1)),
    ("batch100", "16 connections, 100 messages per call", worked(16, 100)),
];

/// Other ways to receive from our server, which have no target.
const VARIANTS: [(&str, Load); 4] = [
    ("recv+ack", Load { connections: 16, batch: 1, style: Style::TwoCalls }),
    ("recv+ack100", Load { connections: 16, batch: 100, style: Style::TwoCalls }),
    ("lines", Load { connections: 16, batch: 1, style: Style::Lines }),
    ("lines100", Load { connections: 16, batch: 100, style: Style::Lines }),
];

const SEND64: &str = "send64";
const CAPABILITY: &str = "capability";
const HALF_RATE: &str = "half_rate";

const fn worked(connections: usize, batch: usize) -> Load {
    Load { connections, batch, style: Style::Work }
}

/// Runs as a child process of the benchmark: the load, or the bare endpoint. `None` for other arguments.
pub(crate) fn run_child(mut arguments: impl Iterator<Item = String>) -> Option<ExitCode> {
    match arguments.next()?.as_str() {
        "load" => Some(load::run(arguments.next())),
        "bare" => Some(bare::run(arguments.next())),
        _ => None,
    }
}

pub(crate) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    // Missing programs are reported immediately, not after minutes.
    for peer in RIVALS.into_iter().chain([Peer::Oncebox]) {
        programs::locate(peer)?;
    }
    let work_dir = WorkDir::create();
    let bench = Bench { options, work_dir: &work_dir };
    println!("files: {}", work_dir.file_system());
    println!(
        "durability: oncebox, beanstalkd -f 0 and Redis with appendfsync always sync before the answer, NATS does not; \
         {PAYLOAD_BYTES} B payloads, {} paired rounds of {} s sending a side",
        bench.rounds(),
        bench.seconds()
    );
    bench.send64(report)?;
    bench.capability(report)?;
    let groups = bench.lifecycles(report)?;
    bench.variants()?;
    if bench.chosen(HALF_RATE) {
        half_rate::run(&work_dir, bench.seconds(), report)?;
    }
    if options.long {
        long::run(&work_dir, report)?;
    }
    options.plot.as_ref().map_or(Ok(()), |path| {
        let method = format!(
            "{PAYLOAD_BYTES} B payloads, one machine, medians of {} paired rounds; NATS does not sync. Each group has its own scale.",
            bench.rounds()
        );
        let written = std::fs::write(path, plot::svg(&groups, &method));
        written.map_err(|error| format!("cannot write the chart: {error}"))
    })
}

struct Bench<'a> {
    options: &'a Options,
    work_dir: &'a WorkDir,
}

impl Bench<'_> {
    fn rounds(&self) -> usize {
        if self.options.quick { 5 } else { 7 }
    }

    /// How long a round sends; draining takes as long as it needs.
    fn seconds(&self) -> f64 {
        if self.options.quick { 0.2 } else { 1.0 }
    }

    fn chosen(&self, name: &str) -> bool {
        self.options.only.as_deref().is_none_or(|only| only == name)
    }

    fn cell(&self, name: &'static str, load: Load, task: Task) -> Cell<'_> {
        let (seconds, rounds) = (self.seconds(), self.rounds());
        Cell { work_dir: self.work_dir, name, load, task, seconds, rounds }
    }

    fn send64(&self, report: &mut Report) -> Result<(), String> {
        if !self.chosen(SEND64) {
            return Ok(());
        }
        println!("\nsending only");
        Row::print_head();
        let row = self.cell(SEND64, worked(64, 1), Task::Send).against(Peer::Bare)?;
        row.print();
        report.figure("server.send64.ratio_bare", row.comparison.ratio);
        Ok(())
    }

    /// Our server with tokens, against the same without.
    fn capability(&self, report: &mut Report) -> Result<(), String> {
        if !self.chosen(CAPABILITY) {
            return Ok(());
        }
        println!("\nwith a token in every request, against no access control");
        Row::print_head();
        let mut ratios = Vec::new();
        for (load, task) in [(worked(64, 1), Task::Send), (worked(64, 1), Task::Lifecycle)] {
            let row = self.cell(CAPABILITY, load, task).pair(Peer::Tokens, Peer::Oncebox)?;
            row.print();
            ratios.push(row.comparison.ratio);
        }
        report.figure("server.capability.ratio_open", ratios.into_iter().fold(f64::INFINITY, f64::min));
        Ok(())
    }

    fn lifecycles(&self, report: &mut Report) -> Result<Vec<Group>, String> {
        let names = LOADS.iter().map(|(name, ..)| name).chain(VARIANTS.iter().map(|(name, _)| name));
        if names.into_iter().any(|name| self.chosen(name)) {
            println!("\nlifecycles");
            Row::print_head();
        }
        let mut groups = Vec::new();
        for (name, title, load) in LOADS.into_iter().filter(|(name, ..)| self.chosen(name)) {
            let (mut ours, mut bars) = (Vec::new(), Vec::new());
            for rival in RIVALS.into_iter().filter(|rival| !self.options.quick || has_target(name, *rival)) {
                let row = self.cell(name, load, Task::Lifecycle).against(rival)?;
                row.print();
                if has_target(name, rival) {
                    report.figure(&format!("server.{name}.ratio_{rival}"), row.comparison.ratio);
                }
                ours.push(row.comparison.ours_per_second);
                bars.push((rival, row.comparison.rival_per_second));
            }
            if !ours.is_empty() {
                bars.insert(0, (Peer::Oncebox, median(ours)));
                groups.push(Group { title, bars });
            }
        }
        Ok(groups)
    }

    fn variants(&self) -> Result<(), String> {
        if self.options.quick {
            return Ok(());
        }
        for (name, load) in VARIANTS.into_iter().filter(|(name, _)| self.chosen(name)) {
            self.cell(name, load, Task::Lifecycle).alone()?.print();
        }
        Ok(())
    }
}

/// Whether this comparison has a target; a quick run skips the others.
fn has_target(name: &str, rival: Peer) -> bool {
    match name {
        "unbatched16" => rival != Peer::Nats,
        name => name == "batch100",
    }
}
