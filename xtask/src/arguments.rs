//! The command line: what can be asked for, and how it is spelled.

use crate::campaign::{API_FUZZ, CRASH, Campaign, FUZZ_MODEL, KILL_PAYMENTS, Kind, MASS_EXPIRY, SIM};
use crate::test::Options;
use crate::test::supervisor::{self, Supervised};
use crate::torture::Torture;

/// Shown when the command line cannot be read.
pub(crate) const USAGE: &str = "\
usage: cargo xtask <command>

  test                               runs every test and doc test of the workspace, and says how long each binary took
  test [--repeat N] [--under-load] [--package P]...
                                     the same N times, with all cores kept busy by other processes, only these packages
  ci                                 fmt, clippy, tidy, spec --check, doc, loom, test
  tidy                               dependencies (directions, licences, sources), sizes, leftovers, words, type names
  tidy --bless                       writes today's counts of banned words and shared type names to xtask/ratchet.toml
  features                           builds every crate without features, with each one alone, and with all of them
  spec                               writes the tests into docs/reference/requirements
  spec --check                       fails when a page is stale or incomplete, or a claim has no test
  guards [PART]                      takes each guard out (whose name has PART, or `loom`) and expects a test to fail
  loom                               every interleaving of RECV, ACK and SEND on the memory store
  fuzz-model --cases N [--seed S]    compares the memory store with the naive model, N times
  crash --points N [--seed S]        crashes the embedded store at N moments, and damages N journals
  mass-expiry --messages N           has N messages of an embedded store expire together, and opens it after that
  sim --seeds N [--seed S]           runs the library in N simulated worlds and audits each
  kill --cycles N [--seed S]         kills a process with an embedded store N times and audits what is left
  kill-server [--rounds N] [--seed S]
                                     kills a server under load N times (25) and judges it by its answers
  kill-workers [--workers W] [--messages N] [--seed S]
                                     kills W workers (8) on a PostgreSQL, and its backends, until N messages (100000) are done
  kill-handlers [--rounds N] [--seed S]
                                     kills handlers in transactions N times (200) and compares their writes with the inbox
  kill-payments --rounds N [--seed S]
                                     kills the example of commands N times and compares its table with the commands
  failover [--seed S]                kills a PostgreSQL under load, and its replica takes over
  api-fuzz [--requests N] [--seed S]
                                     sends a server N requests (5000) that schemathesis makes from its description
  powercut --cuts N [--seed S]       cuts the power under an embedded store N times; needs root and loop devices

called by `test`:

  run-test-binary SECONDS BINARY [ARGUMENT]...
                                     runs a test binary that has so many seconds
  spin SECONDS                       keeps a core busy until standard input or the seconds end";

/// How often a server is killed, if nobody says.
const ROUNDS_DEFAULT: u64 = 25;
/// How many workers share a PostgreSQL, and on how many messages, if nobody says.
const WORKERS_DEFAULT: u64 = 8;
const MESSAGES_DEFAULT: u64 = 100_000;
/// How often handlers are killed, if nobody says.
const HANDLERS_DEFAULT: u64 = 200;
/// How many requests a server is sent, if nobody says.
const REQUESTS_DEFAULT: u64 = 5_000;

/// A command line that makes sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// For people and for CI.
    Ours(Ours),
    RunTestBinary(Supervised),
    Spin(u64),
}

/// A command that works on the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    Campaign(Campaign),
    Ci,
    Features,
    Guards(String),
    Loom,
    Spec,
    SpecCheck,
    Test(Options),
    Tidy,
    TidyBless,
    Torture(Torture),
}

/// Reads the arguments after the program's name. The error says which one is wrong.
pub(crate) fn parse(given: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = given.iter().map(String::as_str).collect();
    let seconds = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number of seconds"));
    match words.as_slice() {
        [supervisor::COMMAND, limit, binary, arguments @ ..] => Ok(Command::RunTestBinary(Supervised {
            seconds: seconds(limit)?,
            binary: (*binary).to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        })),
        ["spin", limit] => Ok(Command::Spin(seconds(limit)?)),
        words => ours(words).map(Command::Ours),
    }
}

fn ours(words: &[&str]) -> Result<Ours, String> {
    match words {
        [] => Err("a command is missing".to_owned()),
        ["ci"] => Ok(Ours::Ci),
        ["features"] => Ok(Ours::Features),
        ["guards"] => Ok(Ours::Guards(String::new())),
        ["guards", part] => Ok(Ours::Guards((*part).to_owned())),
        ["loom"] => Ok(Ours::Loom),
        ["spec"] => Ok(Ours::Spec),
        ["spec", "--check"] => Ok(Ours::SpecCheck),
        ["test", options @ ..] => Options::parse(options).map(Ours::Test),
        ["tidy"] => Ok(Ours::Tidy),
        ["tidy", "--bless"] => Ok(Ours::TidyBless),
        ["crash", options @ ..] => campaign(&CRASH, options),
        ["fuzz-model", options @ ..] => campaign(&FUZZ_MODEL, options),
        ["kill-payments", options @ ..] => campaign(&KILL_PAYMENTS, options),
        ["mass-expiry", options @ ..] => campaign(&MASS_EXPIRY, options),
        ["sim", options @ ..] => campaign(&SIM, options),
        ["kill", options @ ..] => torture("kill", &[("--cycles", None)], options),
        ["kill-server", options @ ..] => {
            torture("kill-server", &[("--rounds", Some(ROUNDS_DEFAULT))], options)
        }
        ["kill-workers", options @ ..] => {
            let counts = [("--workers", Some(WORKERS_DEFAULT)), ("--messages", Some(MESSAGES_DEFAULT))];
            torture("kill-workers", &counts, options)
        }
        ["kill-handlers", options @ ..] => {
            torture("kill-handlers", &[("--rounds", Some(HANDLERS_DEFAULT))], options)
        }
        ["failover", options @ ..] => torture("failover", &[], options),
        ["api-fuzz", options @ ..] => campaign_or(&API_FUZZ, options, Some(REQUESTS_DEFAULT)),
        ["powercut", options @ ..] => torture("powercut", &[("--cuts", None)], options),
        [name @ ("ci" | "features" | "guards" | "loom" | "spec" | "tidy"), rest @ ..] => {
            Err(format!("`{name}` does not take `{}`", rest.join(" ")))
        }
        [unknown, ..] => Err(format!("there is no command `{unknown}`")),
    }
}

fn campaign(kind: &'static Kind, options: &[&str]) -> Result<Ours, String> {
    campaign_or(kind, options, None)
}

/// The same; there may be a default.
fn campaign_or(kind: &'static Kind, options: &[&str], default: Option<u64>) -> Result<Ours, String> {
    let (count, seed) = counted_or(kind.name, kind.unit, options, default)?;
    if seed.is_some() && kind.seed_variable.is_none() {
        return Err(format!("`{}` does not take `--seed`", kind.name));
    }
    Ok(Ours::Campaign(Campaign { kind, count, seed }))
}

/// A campaign with these counts, each with a default or needed, and perhaps a seed.
fn torture(name: &'static str, counts: &[(&str, Option<u64>)], options: &[&str]) -> Result<Ours, String> {
    let mut told = Vec::new();
    let mut rest: Vec<&str> = options.to_vec();
    for (unit, default) in counts {
        let place = rest.iter().position(|word| word == unit);
        let given: Vec<&str> =
            place.map_or_else(Vec::new, |place| rest.drain(place..(place + 2).min(rest.len())).collect());
        let (count, _) = counted_or(name, unit, &given, *default)?;
        told.extend([(*unit).to_owned(), count.to_string()]);
    }
    let (_, seed) = counted_or(name, "", &rest, Some(1))?;
    told.extend(seed.into_iter().flat_map(|seed| ["--seed".to_owned(), seed]));
    Ok(Ours::Torture(Torture { name, options: told }))
}

/// How often, and from which seed; there may be a default.
fn counted_or(
    name: &str,
    unit: &str,
    options: &[&str],
    default: Option<u64>,
) -> Result<(u64, Option<String>), String> {
    let (mut count, mut seed) = (default, None);
    for option in options.chunks(2) {
        match *option {
            [given, value] if given == unit => count = value.parse::<u64>().ok().filter(|count| *count > 0),
            ["--seed", value] => seed = Some(value.to_owned()),
            _ => return Err(format!("`{name}` does not take `{}`", option.join(" "))),
        }
    }
    let count = count.ok_or_else(|| format!("`{name}` needs `{unit} N`, a whole number above zero"))?;
    Ok((count, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Ours, String> {
        match parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())? {
            Command::Ours(command) => Ok(command),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn every_command_has_one_spelling() {
        assert_eq!(parsed("ci"), Ok(Ours::Ci));
        assert_eq!(parsed("features"), Ok(Ours::Features));
        assert_eq!(parsed("guards"), Ok(Ours::Guards(String::new())));
        assert_eq!(parsed("guards fence"), Ok(Ours::Guards("fence".to_owned())));
        assert_eq!(parsed("loom"), Ok(Ours::Loom));
        assert_eq!(parsed("spec"), Ok(Ours::Spec));
        assert_eq!(parsed("spec --check"), Ok(Ours::SpecCheck));
        assert_eq!(parsed("test"), Ok(Ours::Test(Options::default())));
        assert_eq!(parsed("tidy"), Ok(Ours::Tidy));
        assert_eq!(parsed("tidy --bless"), Ok(Ours::TidyBless));
    }

    #[test]
    fn a_campaign_needs_a_count_and_may_have_a_seed() {
        let campaign = |kind, count, seed: Option<&str>| {
            Ok(Ours::Campaign(Campaign { kind, count, seed: seed.map(str::to_owned) }))
        };
        assert_eq!(parsed("crash --points 9"), campaign(&CRASH, 9, None));
        assert_eq!(parsed("sim --seeds 9"), campaign(&SIM, 9, None));
        assert_eq!(parsed("kill-payments --rounds 9"), campaign(&KILL_PAYMENTS, 9, None));
        assert_eq!(parsed("mass-expiry --messages 9"), campaign(&MASS_EXPIRY, 9, None));
        parsed("mass-expiry --messages 9 --seed 7").unwrap_err();
        assert_eq!(parsed("fuzz-model --cases 9"), campaign(&FUZZ_MODEL, 9, None));
        assert_eq!(parsed("fuzz-model --seed 7 --cases 9"), campaign(&FUZZ_MODEL, 9, Some("7")));
        for bad in ["", "--cases", "--cases 0", "--cases many", "--seed 7", "--cases 9 --loud yes"] {
            parsed(&format!("fuzz-model {bad}")).unwrap_err();
        }
    }

    #[test]
    fn each_kind_of_torture_has_its_unit() {
        let torture = |name, options: &str| {
            Ok(Ours::Torture(Torture {
                name,
                options: options.split_whitespace().map(str::to_owned).collect(),
            }))
        };
        assert_eq!(parsed("kill --cycles 9"), torture("kill", "--cycles 9"));
        assert_eq!(parsed("powercut --seed 7 --cuts 9"), torture("powercut", "--cuts 9 --seed 7"));
        parsed("kill --cuts 9").unwrap_err();
        parsed("kill").unwrap_err();
        assert_eq!(parsed("kill-server --rounds 9"), torture("kill-server", "--rounds 9"));
        assert_eq!(parsed("kill-server"), torture("kill-server", "--rounds 25"));
        parsed("kill-server --rounds none").unwrap_err();
        parsed("kill-server --rounds").unwrap_err();
        let workers = torture("kill-workers", "--workers 8 --messages 100000 --seed 7");
        assert_eq!(parsed("kill-workers --seed 7"), workers);
        assert_eq!(
            parsed("kill-workers --messages 9 --workers 2"),
            torture("kill-workers", "--workers 2 --messages 9")
        );
        assert_eq!(parsed("kill-handlers"), torture("kill-handlers", "--rounds 200"));
        assert_eq!(parsed("failover --seed 7"), torture("failover", "--seed 7"));
        parsed("failover --rounds 7").unwrap_err();
    }

    #[test]
    fn a_server_is_fuzzed_from_a_seed() {
        let fuzz = |count, seed| Ok(Ours::Campaign(Campaign { kind: &API_FUZZ, count, seed }));
        assert_eq!(parsed("api-fuzz"), fuzz(REQUESTS_DEFAULT, None));
        assert_eq!(parsed("api-fuzz --requests 9 --seed 7"), fuzz(9, Some("7".to_owned())));
        parsed("api-fuzz --cases 9").unwrap_err();
    }

    #[test]
    fn the_test_command_calls_itself() {
        let words = ["run-test-binary", "9", "deps/it-0", "--quiet"].map(str::to_owned);
        let supervised =
            Supervised { seconds: 9, binary: "deps/it-0".to_owned(), arguments: vec!["--quiet".to_owned()] };
        assert_eq!(parse(&words), Ok(Command::RunTestBinary(supervised)));
        assert_eq!(parse(&["spin", "9"].map(str::to_owned)), Ok(Command::Spin(9)));
        parse(&["spin", "long"].map(str::to_owned)).unwrap_err();
        assert_eq!(parsed("test --repeat 3"), Ok(Ours::Test(Options { repeat: 3, ..Options::default() })));
    }

    /// Placeholders (`N`, `[PART]`) are no command lines.
    #[test]
    fn the_commands_of_the_project_s_documents_exist() {
        let workspace = crate::workspace::Workspace::locate().unwrap();
        let mut lines = 0;
        for page in ["CONTRIBUTING.md", "RELEASING.md", ".github/pull_request_template.md"] {
            let text = workspace.read(page).unwrap();
            for rest in text.split("cargo xtask ").skip(1) {
                let line = rest.split(['`', '\n', '#']).next().unwrap().trim();
                if line.chars().all(|character| !character.is_ascii_uppercase() && character != '[') {
                    parsed(line).unwrap_or_else(|mistake| panic!("{page}: `cargo xtask {line}`: {mistake}"));
                    lines += 1;
                }
            }
        }
        assert!(lines > 15, "the documents have commands");
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(parsed(""), Err("a command is missing".to_owned()));
        assert_eq!(parsed("dance"), Err("there is no command `dance`".to_owned()));
        assert_eq!(parsed("tidy --fast"), Err("`tidy` does not take `--fast`".to_owned()));
    }
}
