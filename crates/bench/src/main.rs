//! Benchmarks. Each compares with a rival or with a physical limit in the same run; see `docs/reference/benchmarks.md`.

mod drive;
mod embedded;
mod machine;
mod messages;
mod options;
mod ours;
mod pairs;
mod postgres;
mod report;
mod server;
mod worker;

use std::process::ExitCode;

use options::Options;
use report::Report;

const USAGE: &str =
    "usage: oncebox-bench machine|embedded|worker|server|postgres [--quick] [--long] [--libraries] [--only LOAD] [--json FILE] [--plot FILE]

  machine   the state machine against a bare HashMap and BTreeMap
  embedded  the embedded store against a bare journal and, with --features sqlite, against SQLite
  worker    the library's worker against a hand-written loop on the same store
  server    the server over HTTP against beanstalkd, Redis, NATS and an endpoint that does nothing; starts all of them
  postgres  the PostgreSQL store against hand-written queues on the same server, a private one that it starts
  --quick   fewer and shorter rounds, under 60 seconds
  --long    embedded: ten more minutes, to check that the rate does not drop;
            server: ten more minutes, to check that memory does not grow;
            postgres: seven more minutes, to measure the cost of an old snapshot
  --libraries  postgres: also against graphile-worker, which needs node and npm
  --only    embedded, server, postgres: run a single load
  --json    write the figures to FILE
  --plot    server: write a chart of the lifecycles to FILE, as SVG";

fn main() -> ExitCode {
    if let Some(code) = server::run_child(std::env::args().skip(1)) {
        return code;
    }
    let Some((bench, options)) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let run: fn(&Options, &mut Report) -> Result<(), String> = match bench.as_str() {
        "embedded" => |options, report| {
            embedded::run(options, report);
            Ok(())
        },
        "machine" => |options, report| {
            machine::run(options, report);
            Ok(())
        },
        "postgres" => postgres::run,
        "server" => server::run,
        "worker" => |options, report| {
            worker::run(options, report);
            Ok(())
        },
        _ => {
            eprintln!("unknown benchmark '{bench}'\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    report::print_machine();
    let mut report = Report::default();
    let result = run(&options, &mut report).and_then(|()| {
        let written = options.json.map_or(Ok(()), |path| report.write(&path));
        written.map_err(|error| format!("cannot write the figures: {error}"))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
