//! Benchmarks. Each compares with a rival or a physical limit in the same run; see `docs/reference/benchmarks.md`.

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
  worker    the library's worker against a loop written by hand, on the same store
  server    the server over HTTP against beanstalkd, Redis, NATS and an endpoint that does nothing, all started by it
  postgres  the PostgreSQL store against queues written by hand on the same server, a private one that it starts
  --quick   fewer and shorter rounds, under 60 seconds
  --long    embedded: ten minutes more, to see whether it stays as fast as it began;
            server: ten minutes more, to see whether its memory stays what it is;
            postgres: seven minutes more, to see what an old snapshot costs
  --libraries  postgres: against graphile-worker too, which needs node and npm
  --only    embedded, server, postgres: the lines of one load and nothing else, to look at it closely
  --json    writes the figures to FILE
  --plot    server: writes a picture of the lifecycles to FILE, as SVG";

fn main() -> ExitCode {
    if let Some(ended) = server::hidden(std::env::args().skip(1)) {
        return ended;
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
            eprintln!("there is no benchmark '{bench}'\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    report::print_machine();
    let mut report = Report::default();
    let ended = run(&options, &mut report).and_then(|()| {
        let written = options.json.map_or(Ok(()), |path| report.write(&path));
        written.map_err(|error| format!("cannot write the figures: {error}"))
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::FAILURE
        }
    }
}
