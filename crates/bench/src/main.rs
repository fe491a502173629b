//! Benchmarks. Each compares with a rival or a physical limit in the same run; see `docs/reference/benchmarks.md`.

mod embedded;
mod machine;
mod messages;
mod options;
mod pairs;
mod report;
mod worker;

use std::process::ExitCode;

use options::Options;
use report::Report;

const USAGE: &str =
    "usage: oncebox-bench machine|embedded|worker [--quick] [--long] [--only LOAD] [--json FILE]

  machine   the state machine against a bare HashMap and BTreeMap
  embedded  the embedded store against a bare journal and, with --features sqlite, against SQLite
  worker    the library's worker against a loop written by hand, on the same store
  --quick   fewer and shorter rounds, under 60 seconds
  --long    embedded: ten minutes more, to see whether it stays as fast as it began
  --only    embedded: the lines of one load and nothing else, to look at it closely
  --json    writes the figures to FILE";

fn main() -> ExitCode {
    let Some((bench, options)) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let run = match bench.as_str() {
        "embedded" => embedded::run,
        "machine" => machine::run,
        "worker" => worker::run,
        _ => {
            eprintln!("there is no benchmark '{bench}'\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    report::print_machine();
    let mut report = Report::default();
    run(&options, &mut report);
    match options.json.map_or(Ok(()), |path| report.write(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the figures: {error}");
            ExitCode::FAILURE
        }
    }
}
