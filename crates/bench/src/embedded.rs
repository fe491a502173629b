//! The embedded store on a real disk, against the limit of any journal (bare appends with one sync for all waiting
//! calls) and against a plain queue on `SQLite`. One lifecycle is accept + claim + ack, one call each.

mod cell;
mod footprint;
mod long;
mod raw;
mod slow;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
pub(crate) mod work_dir;

use cell::{Cell, Row};
use work_dir::WorkDir;

use crate::drive::{Bench, Load, Style};
use crate::options::Options;
use crate::report::Report;

const ROUNDS: usize = 7;

/// Name in the figures, callers, messages per call, style.
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
    let work_dir = WorkDir::create();
    let bench = Bench::new(if options.quick { 0.2 } else { 0.5 });
    println!("files: {}", work_dir.file_system());
    println!(
        "durability: ours and raw fdatasync before the answer, SQLite WAL with synchronous=FULL; {ROUNDS} paired rounds of {} s a side",
        bench.seconds
    );
    if !cell::WITH_SQLITE {
        println!(
            "SQLite is not included: cargo run --release -p oncebox-bench --features sqlite -- embedded"
        );
    }
    for payload_bytes in [256, 1024].into_iter().take(if options.quick { 1 } else { 2 }) {
        table(options, &bench, &work_dir, payload_bytes, report);
    }
    if !options.quick {
        slow_table(options, &bench, &work_dir);
    }
    if !options.quick && options.only.is_none() {
        footprint::run(&bench, &work_dir, report);
    }
    if options.long {
        long::run(&bench, &work_dir, report);
    }
}

fn loads(options: &Options, payload_bytes: usize) -> impl Iterator<Item = (&'static str, Load)> {
    let chosen = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let chosen = LOADS.into_iter().filter(move |(name, ..)| chosen(name));
    chosen.map(move |(name, callers, batch, style)| (name, Load { callers, batch, payload_bytes, style }))
}

fn table(options: &Options, bench: &Bench, work_dir: &WorkDir, payload_bytes: usize, report: &mut Report) {
    println!("\n{payload_bytes} B payloads");
    Row::print_head();
    for (name, load) in loads(options, payload_bytes) {
        let cell = Cell { bench, work_dir, load, slow: false };
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

/// The same with 1 ms added to every sync, as on a cloud disk.
fn slow_table(options: &Options, bench: &Bench, work_dir: &WorkDir) {
    for payload_bytes in [256, 1024] {
        println!("\n{payload_bytes} B payloads, 1 ms added to every sync");
        Row::print_head();
        for (name, load) in loads(options, payload_bytes) {
            Cell { bench, work_dir, load, slow: true }.against_raw(ROUNDS).print(name, "raw");
        }
    }
}
