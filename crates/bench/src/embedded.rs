//! The embedded store on a real disk, against the limit that any journal has (bare appends, one sync for all that wait) and
//! against a plain queue on `SQLite`. One lifecycle is accept + claim + ack, each an answered call.

mod cell;
mod footprint;
mod long;
pub(crate) mod place;
mod raw;
mod slow;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

use cell::{Cell, Row};
use place::Place;

use crate::drive::{Bench, Load, Style};
use crate::options::Options;
use crate::report::Report;

const ROUNDS: usize = 7;

/// Name in the figures, callers, messages per call.
const LOADS: [(&str, usize, usize, Style); 7] = [
    ("single", 1, 1, Style::ThreeCalls),
    ("unbatched16", 16, 1, Style::ThreeCalls),
    ("unbatched64", 64, 1, Style::ThreeCalls),
    ("batch100single", 1, 100, Style::ThreeCalls),
    ("batch100", 16, 100, Style::ThreeCalls),
    ("worker16", 16, 1, Style::TwoCalls),
    ("worker100", 16, 100, Style::TwoCalls),
];

pub(crate) fn run(options: &Options, report: &mut Report) {
    let place = Place::make();
    let bench = Bench::new(if options.quick { 0.2 } else { 0.5 });
    println!("files: {}", place.kind());
    println!(
        "durability: ours and raw fdatasync before the answer, SQLite WAL with synchronous=FULL; {ROUNDS} paired rounds of {} s a side",
        bench.seconds
    );
    if !cell::WITH_SQLITE {
        println!("SQLite is left out: cargo run --release -p oncebox-bench --features sqlite -- embedded");
    }
    for payload_bytes in [256, 1024].into_iter().take(if options.quick { 1 } else { 2 }) {
        table(options, &bench, &place, payload_bytes, report);
    }
    if !options.quick {
        slow_table(options, &bench, &place);
    }
    if !options.quick && options.only.is_none() {
        footprint::run(&bench, &place, report);
    }
    if options.long {
        long::run(&bench, &place, report);
    }
}

fn loads(options: &Options, payload_bytes: usize) -> impl Iterator<Item = (&'static str, Load)> {
    let chosen = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let chosen = LOADS.into_iter().filter(move |(name, ..)| chosen(name));
    chosen.map(move |(name, callers, batch, style)| (name, Load { callers, batch, payload_bytes, style }))
}

fn table(options: &Options, bench: &Bench, place: &Place, payload_bytes: usize, report: &mut Report) {
    println!("\n{payload_bytes} B payloads");
    Row::print_head();
    for (name, load) in loads(options, payload_bytes) {
        let cell = Cell { bench, place, load, slow: false };
        let row = cell.against_raw(ROUNDS);
        row.print(name, "raw");
        let sqlite = cell.against_sqlite(ROUNDS);
        if let Some(row) = &sqlite {
            row.print(name, "sqlite");
        }
        if payload_bytes == 256 {
            figures(name, &row, sqlite.as_ref(), report);
        }
    }
}

/// The figures that have a target.
fn figures(name: &str, raw: &Row, sqlite: Option<&Row>, report: &mut Report) {
    if matches!(name, "unbatched16" | "batch100" | "worker16" | "worker100") {
        report.figure(&format!("embedded.{name}.ratio_raw"), raw.comparison.ratio);
    }
    if name == "unbatched16" {
        report.figure("embedded.pause.ratio_raw", raw.pause_ratio());
    }
    if let Some(sqlite) = sqlite.filter(|_| matches!(name, "single" | "unbatched16" | "batch100")) {
        report.figure(&format!("embedded.{name}.ratio_sqlite"), sqlite.comparison.ratio);
    }
}

/// The same on a disk whose every sync takes a millisecond more, as in a cloud.
fn slow_table(options: &Options, bench: &Bench, place: &Place) {
    for payload_bytes in [256, 1024] {
        println!("\n{payload_bytes} B payloads, 1 ms added to every sync");
        Row::print_head();
        for (name, load) in loads(options, payload_bytes) {
            Cell { bench, place, load, slow: true }.against_raw(ROUNDS).print(name, "raw");
        }
    }
}
