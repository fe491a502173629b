//! The PostgreSQL store against hand-written queues on the same server: `SKIP LOCKED`, with keys kept or deleted.
//! One lifecycle is accept + claim + ack, each committed with `synchronous_commit = on`.

mod cell;
mod finished;
mod libraries;
mod pinned;
mod raw;
mod server;

use cell::{Cell, Row};
use libraries::GraphileWorker;
use raw::Ack;
use server::{CONNECTIONS_MAX, SETTINGS, Server};

use crate::drive::{Bench, Load, Style};
use crate::options::Options;
use crate::report::Report;

const PAYLOAD_BYTES: usize = 256;

/// Name in the figures, callers, messages per call.
const LOADS: [(&str, usize, usize); 4] =
    [("unbatched1", 1, 1), ("unbatched16", 16, 1), ("unbatched64", 64, 1), ("batch50", 16, 50)];

const FINISHED: &str = "finished_1m";
const PINNED: &str = "pinned_horizon";

/// Like a busy worker: our side acks and claims in one call.
const fn load(callers: usize, batch: usize) -> Load {
    Load { callers, batch, payload_bytes: PAYLOAD_BYTES, style: Style::TwoCalls }
}

pub(crate) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let server = Server::start()?;
    let bench = Bench::new(if options.quick { 0.2 } else { 2.0 });
    let rounds = if options.quick { 5 } else { 7 };
    let chosen = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    print_method(&server, &bench, rounds)?;
    Row::print_head();
    for (name, callers, batch) in LOADS.into_iter().filter(|(name, ..)| chosen(name)) {
        let cell = Cell { bench: &bench, server: &server, load: load(callers, batch), rounds };
        let row = cell.against_raw(Ack::Keep)?;
        let ratio = row.comparison.ratio;
        row.print(name, "keeping");
        report.figure(&format!("postgres.{name}.ratio_raw"), ratio);
        if options.quick && name != "batch50" {
            continue;
        }
        let row = cell.against_raw(Ack::Forget)?;
        let ratio = row.comparison.ratio;
        row.print(name, "forgetting");
        if name == "batch50" {
            report.figure("postgres.batch50.ratio_forgetting", ratio);
        }
    }
    if options.libraries {
        let library = GraphileWorker::install()?;
        for (name, callers, batch) in LOADS.into_iter().filter(|(name, ..)| chosen(name)) {
            let cell = Cell { bench: &bench, server: &server, load: load(callers, batch), rounds };
            let comparison = library.compare(&cell)?;
            println!(
                "{name:>11} {:>15}: {:.0}/s, ours {:.0}/s",
                "graphile-worker", comparison.rival_per_second, comparison.ours_per_second
            );
            report.figure(&format!("postgres.{name}.ratio_graphile_worker"), comparison.ratio);
        }
    }
    if chosen(FINISHED) {
        let cell = Cell { bench: &bench, server: &server, load: load(1, 1), rounds };
        finished::run(&cell, if options.quick { 100_000 } else { 1_000_000 }, report)?;
    }
    if options.long && chosen(PINNED) {
        let bench = Bench::new(1.0);
        let cell = Cell { bench: &bench, server: &server, load: load(16, 1), rounds };
        pinned::run(&cell, if options.quick { &pinned::SHORT } else { &pinned::LONG }, report)?;
    }
    Ok(())
}

fn print_method(server: &Server, bench: &Bench, rounds: usize) -> Result<(), String> {
    let version = server.psql("show server_version")?;
    let synced = server.psql("select string_agg(name || '=' || setting, ', ' order by name) from pg_settings where name in ('fsync', 'synchronous_commit', 'wal_sync_method', 'full_page_writes')")?;
    let settings = SETTINGS.map(|(name, value)| format!("{name}={value}")).join(", ");
    println!("server: PostgreSQL {version}, a private one on loopback; {settings}");
    println!(
        "durability: {synced}; {PAYLOAD_BYTES} B payloads, at most {CONNECTIONS_MAX} connections a side, {rounds} paired rounds of {} s a side",
        bench.seconds
    );
    Ok(())
}
