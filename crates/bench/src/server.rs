//! Our server over HTTP, against real rivals and against an endpoint that does nothing. Every server and the load run in
//! processes of their own. One lifecycle is send + receive + ack, each confirmed.

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

use crate::embedded::place::Place;
use crate::options::Options;
use crate::pairs::median;
use crate::report::Report;

const RIVALS: [Peer; 3] = [Peer::Beanstalkd, Peer::Redis, Peer::Nats];

/// Name in the figures, title in the picture, and who calls with what.
const LOADS: [(&str, &str, Load); 3] = [
    ("unbatched16", "16 connections, one message a call", worked(16, 1)),
    ("unbatched64", "64 connections, one message a call", worked(64, 1)),
    ("batch100", "16 connections, 100 messages a call", worked(16, 100)),
];

/// Other ways to receive from our server, without a target.
const WAYS: [(&str, Load); 4] = [
    ("recv+ack", Load { connections: 16, batch: 1, style: Style::TwoCalls }),
    ("recv+ack100", Load { connections: 16, batch: 100, style: Style::TwoCalls }),
    ("lines", Load { connections: 16, batch: 1, style: Style::Lines }),
    ("lines100", Load { connections: 16, batch: 100, style: Style::Lines }),
];

const SEND64: &str = "send64";
const HALF_RATE: &str = "half_rate";

const fn worked(connections: usize, batch: usize) -> Load {
    Load { connections, batch, style: Style::Work }
}

/// What this program does when it was started by itself: the load, or the bare endpoint.
pub(crate) fn hidden(mut words: impl Iterator<Item = String>) -> Option<ExitCode> {
    match words.next()?.as_str() {
        "load" => Some(load::run(words.next())),
        "bare" => Some(bare::run(words.next())),
        _ => None,
    }
}

pub(crate) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    // What is missing is said at once, not after minutes.
    for peer in RIVALS.into_iter().chain([Peer::Oncebox]) {
        programs::of(peer)?;
    }
    let place = Place::make();
    let bench = Bench { options, place: &place };
    println!("files: {}", place.kind());
    println!(
        "durability: oncebox, beanstalkd -f 0 and Redis with appendfsync always sync before the answer, NATS does not; \
         {PAYLOAD_BYTES} B payloads, {} paired rounds of {} s sending a side",
        bench.rounds(),
        bench.seconds()
    );
    bench.send64(report)?;
    let groups = bench.lifecycles(report)?;
    bench.ways()?;
    if bench.chosen(HALF_RATE) {
        half_rate::run(&place, bench.seconds(), report)?;
    }
    if options.long {
        long::run(&place, report)?;
    }
    options.plot.as_ref().map_or(Ok(()), |path| {
        let method = format!(
            "{PAYLOAD_BYTES} B payloads, one machine, medians of {} paired rounds; NATS does not sync. Each group has its own scale.",
            bench.rounds()
        );
        let written = std::fs::write(path, plot::svg(&groups, &method));
        written.map_err(|error| format!("cannot write the picture: {error}"))
    })
}

struct Bench<'a> {
    options: &'a Options,
    place: &'a Place,
}

impl Bench<'_> {
    fn rounds(&self) -> usize {
        if self.options.quick { 5 } else { 7 }
    }

    /// How long a round sends; it drains for as long as that takes.
    fn seconds(&self) -> f64 {
        if self.options.quick { 0.2 } else { 1.0 }
    }

    fn chosen(&self, name: &str) -> bool {
        self.options.only.as_deref().is_none_or(|only| only == name)
    }

    fn cell(&self, name: &'static str, load: Load, task: Task) -> Cell<'_> {
        let (seconds, rounds) = (self.seconds(), self.rounds());
        Cell { place: self.place, name, load, task, seconds, rounds }
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

    fn lifecycles(&self, report: &mut Report) -> Result<Vec<Group>, String> {
        let names = LOADS.iter().map(|(name, ..)| name).chain(WAYS.iter().map(|(name, _)| name));
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

    fn ways(&self) -> Result<(), String> {
        if self.options.quick {
            return Ok(());
        }
        for (name, load) in WAYS.into_iter().filter(|(name, _)| self.chosen(name)) {
            self.cell(name, load, Task::Lifecycle).alone()?.print();
        }
        Ok(())
    }
}

/// Whether a figure of this comparison is held against a target; a quick run leaves out the others.
fn has_target(name: &str, rival: Peer) -> bool {
    match name {
        "unbatched16" => rival != Peer::Nats,
        name => name == "batch100",
    }
}
