//! Benchmarks. Each compares with a rival or a physical limit in the same run; see `docs/reference/benchmarks.md`.

mod machine;
mod options;
mod pairs;
mod report;

use std::process::ExitCode;

use options::Options;
use report::Report;

const USAGE: &str = "usage: oncebox-bench machine [--quick] [--json FILE]

  machine   the state machine against a bare HashMap and BTreeMap
  --quick   fewer and shorter rounds, under 60 seconds
  --json    writes the figures to FILE";

fn main() -> ExitCode {
    let Some((bench, options)) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let run = match bench.as_str() {
        "machine" => machine::run,
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
