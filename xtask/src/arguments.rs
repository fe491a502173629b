//! Command line parsing.

use crate::campaign::{API_FUZZ, CRASH, Campaign, CampaignKind, FUZZ_MODEL, KILL_PAYMENTS, MASS_EXPIRY, SIM};
use crate::guards::Selection;
use crate::test::Options;
use crate::test::supervisor::{self, Supervised};
use crate::torture::Torture;

/// Printed if the command line is invalid.
pub(crate) const USAGE: &str = "\
usage: cargo xtask <command>

  test                               run all tests and doc tests of the workspace, and report the time of each binary
  test [--repeat N] [--under-load] [--package P]...
                                     repeat N times, keep all cores busy with other processes, test only these packages
  ci                                 run fmt, clippy, tidy, spec --check, doc, loom and test
  tidy                               check dependencies (directions, licences, sources), cycles of modules, sizes,
                                     leftovers, words, type names
  features                           build every crate without features, with each feature alone, and with all features
  spec                               write the lists of tests in docs/reference/requirements
  spec --check                       fail if a page is stale or incomplete, or a claim has no test
  guards [PART | --missing]          remove each guard (whose name or file contains PART, or `loom`, or that is not in
                                     the report) and expect a test to fail
  loom                               test every interleaving of RECV, ACK and SEND on the memory store
  fuzz-model --cases N [--seed S]    compare the memory store with the naive model in N cases
  crash --points N [--seed S]        crash the embedded store at N points, and damage N journals
  mass-expiry --messages N           let N messages of an embedded store expire at once, and reopen it
  sim --seeds N [--seed S]           simulate the library with N seeds, and audit each run
  kill --cycles N [--seed S]         kill a process with an embedded store N times, and check what is left
  kill-server [--rounds N] [--seed S]
                                     kill a server under load N times (25), and check its responses
  kill-workers [--workers W] [--messages N] [--seed S]
                                     kill W workers (8) that share a PostgreSQL server, and its backends, until N messages
                                     (100000) are finished
  kill-handlers [--rounds N] [--seed S]
                                     kill handlers in transactions N times (200), and compare their writes with the inbox
  kill-payments --rounds N [--seed S]
                                     kill the payments example N times, and compare its table with the commands
  failover [--seed S]                kill a PostgreSQL server under load, and promote its replica
  api-fuzz [--requests N] [--seed S]
                                     send a server N requests (5000) that schemathesis generates from its OpenAPI document
  powercut --cuts N [--seed S]       cut the power under an embedded store N times; needs root and loop devices

used by `test`:

  run-test-binary SECONDS BINARY [ARGUMENT]...
                                     run a test binary with a time limit
  spin SECONDS                       keep a core busy until standard input ends, for at most SECONDS";

/// Default number of kills of a server.
const ROUNDS_DEFAULT: u64 = 25;
/// Default number of workers that share a PostgreSQL server, and of their messages.
const WORKERS_DEFAULT: u64 = 8;
const MESSAGES_DEFAULT: u64 = 100_000;
/// Default number of kills of handlers.
const HANDLER_KILLS_DEFAULT: u64 = 200;
/// Default number of requests of `api-fuzz`.
const REQUESTS_DEFAULT: u64 = 5_000;

/// A valid command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// A command for developers and CI.
    Workspace(WorkspaceCommand),
    RunTestBinary(Supervised),
    Spin(u64),
}

/// A command that works on the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceCommand {
    Campaign(Campaign),
    Ci,
    Features,
    Guards(Selection),
    Loom,
    Spec,
    SpecCheck,
    Test(Options),
    Tidy,
    Torture(Torture),
}

/// Parses the arguments after the program's name. The error names the invalid one.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seconds = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number of seconds"));
    match words.as_slice() {
        [supervisor::COMMAND, limit, binary, arguments @ ..] => Ok(Command::RunTestBinary(Supervised {
            seconds: seconds(limit)?,
            binary: (*binary).to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        })),
        ["spin", limit] => Ok(Command::Spin(seconds(limit)?)),
        words => workspace_command(words).map(Command::Workspace),
    }
}

fn workspace_command(words: &[&str]) -> Result<WorkspaceCommand, String> {
    match words {
        [] => Err("the command is missing".to_owned()),
        ["ci"] => Ok(WorkspaceCommand::Ci),
        ["features"] => Ok(WorkspaceCommand::Features),
        ["guards"] => Ok(WorkspaceCommand::Guards(Selection::All)),
        ["guards", "--missing"] => Ok(WorkspaceCommand::Guards(Selection::Missing)),
        ["guards", part] => Ok(WorkspaceCommand::Guards(Selection::Part((*part).to_owned()))),
        ["loom"] => Ok(WorkspaceCommand::Loom),
        ["spec"] => Ok(WorkspaceCommand::Spec),
        ["spec", "--check"] => Ok(WorkspaceCommand::SpecCheck),
        ["test", options @ ..] => Options::parse(options).map(WorkspaceCommand::Test),
        ["tidy"] => Ok(WorkspaceCommand::Tidy),
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
            torture("kill-handlers", &[("--rounds", Some(HANDLER_KILLS_DEFAULT))], options)
        }
        ["failover", options @ ..] => torture("failover", &[], options),
        ["api-fuzz", options @ ..] => campaign_or(&API_FUZZ, options, Some(REQUESTS_DEFAULT)),
        ["powercut", options @ ..] => torture("powercut", &[("--cuts", None)], options),
        [name @ ("ci" | "features" | "guards" | "loom" | "spec" | "tidy"), rest @ ..] => {
            Err(format!("`{name}` does not take `{}`", rest.join(" ")))
        }
        [unknown, ..] => Err(format!("unknown command `{unknown}`")),
    }
}

fn campaign(kind: &'static CampaignKind, options: &[&str]) -> Result<WorkspaceCommand, String> {
    campaign_or(kind, options, None)
}

/// A campaign with an optional default count.
fn campaign_or(
    kind: &'static CampaignKind,
    options: &[&str],
    default: Option<u64>,
) -> Result<WorkspaceCommand, String> {
    let (count, seed) = counted_or(kind.name, kind.unit, options, default)?;
    if seed.is_some() && kind.seed_variable.is_none() {
        return Err(format!("`{}` does not take `--seed`", kind.name));
    }
    Ok(WorkspaceCommand::Campaign(Campaign { kind, count, seed }))
}

/// A campaign with these counts, each with an optional default, and an optional seed.
fn torture(
    name: &'static str,
    counts: &[(&str, Option<u64>)],
    options: &[&str],
) -> Result<WorkspaceCommand, String> {
    let mut arguments = Vec::new();
    let mut rest: Vec<&str> = options.to_vec();
    for (unit, default) in counts {
        let index = rest.iter().position(|word| word == unit);
        let given: Vec<&str> =
            index.map_or_else(Vec::new, |index| rest.drain(index..(index + 2).min(rest.len())).collect());
        let (count, _) = counted_or(name, unit, &given, *default)?;
        arguments.extend([(*unit).to_owned(), count.to_string()]);
    }
    let (_, seed) = counted_or(name, "", &rest, Some(1))?;
    arguments.extend(seed.into_iter().flat_map(|seed| ["--seed".to_owned(), seed]));
    Ok(WorkspaceCommand::Torture(Torture { name, options: arguments }))
}

/// Parses a count, with an optional default, and an optional seed.
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

    fn parsed(line: &str) -> Result<WorkspaceCommand, String> {
        match parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())? {
            Command::Workspace(command) => Ok(command),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn parses_commands() {
        assert_eq!(parsed("ci"), Ok(WorkspaceCommand::Ci));
        assert_eq!(parsed("features"), Ok(WorkspaceCommand::Features));
        let guards = |selection| Ok(WorkspaceCommand::Guards(selection));
        assert_eq!(parsed("guards"), guards(Selection::All));
        assert_eq!(parsed("guards --missing"), guards(Selection::Missing));
        assert_eq!(parsed("guards fence"), guards(Selection::Part("fence".to_owned())));
        assert_eq!(parsed("loom"), Ok(WorkspaceCommand::Loom));
        assert_eq!(parsed("spec"), Ok(WorkspaceCommand::Spec));
        assert_eq!(parsed("spec --check"), Ok(WorkspaceCommand::SpecCheck));
        assert_eq!(parsed("test"), Ok(WorkspaceCommand::Test(Options::default())));
        assert_eq!(parsed("tidy"), Ok(WorkspaceCommand::Tidy));
    }

    #[test]
    fn a_campaign_needs_a_count_and_may_have_a_seed() {
        let campaign = |kind, count, seed: Option<&str>| {
            Ok(WorkspaceCommand::Campaign(Campaign { kind, count, seed: seed.map(str::to_owned) }))
        };
        assert_eq!(parsed("crash --points 9"), campaign(&CRASH, 9, None));
        assert_eq!(parsed("sim --seeds 9"), campaign(&SIM, 9, None));
        assert_eq!(parsed("kill-payments --rounds 9"), campaign(&KILL_PAYMENTS, 9, None));
        assert_eq!(parsed("mass-expiry --messages 9"), campaign(&MASS_EXPIRY, 9, None));
        parsed("mass-expiry --messages 9 --seed 7").unwrap_err();
        assert_eq!(parsed("fuzz-model --cases 9"), campaign(&FUZZ_MODEL, 9, None));
        assert_eq!(parsed("fuzz-model --seed 7 --cases 9"), campaign(&FUZZ_MODEL, 9, Some("7")));
        for bad in ["", "--cases", "--cases 0", "--cases many", "--seed 7", "--cases 9 --other yes"] {
            parsed(&format!("fuzz-model {bad}")).unwrap_err();
        }
    }

    #[test]
    fn each_torture_campaign_has_its_own_count() {
        let torture = |name, options: &str| {
            Ok(WorkspaceCommand::Torture(Torture {
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
    fn api_fuzz_has_a_default_count_and_a_seed() {
        let fuzz = |count, seed| Ok(WorkspaceCommand::Campaign(Campaign { kind: &API_FUZZ, count, seed }));
        assert_eq!(parsed("api-fuzz"), fuzz(REQUESTS_DEFAULT, None));
        assert_eq!(parsed("api-fuzz --requests 9 --seed 7"), fuzz(9, Some("7".to_owned())));
        parsed("api-fuzz --cases 9").unwrap_err();
    }

    #[test]
    fn parses_the_commands_that_test_calls() {
        let words = ["run-test-binary", "9", "deps/it-0", "--quiet"].map(str::to_owned);
        let supervised =
            Supervised { seconds: 9, binary: "deps/it-0".to_owned(), arguments: vec!["--quiet".to_owned()] };
        assert_eq!(parse(&words), Ok(Command::RunTestBinary(supervised)));
        assert_eq!(parse(&["spin", "9"].map(str::to_owned)), Ok(Command::Spin(9)));
        parse(&["spin", "long"].map(str::to_owned)).unwrap_err();
        assert_eq!(
            parsed("test --repeat 3"),
            Ok(WorkspaceCommand::Test(Options { repeat: 3, ..Options::default() }))
        );
    }

    /// Lines with placeholders (`N`, `[PART]`) are skipped.
    #[test]
    fn commands_in_the_documents_exist() {
        let workspace = crate::workspace::Workspace::locate().unwrap();
        let mut lines = 0;
        for page in ["CONTRIBUTING.md", "RELEASING.md", ".github/pull_request_template.md"] {
            let text = workspace.read(page).unwrap();
            for rest in text.split("cargo xtask ").skip(1) {
                let line = rest.split(['`', '\n', '#']).next().unwrap().trim();
                if line.chars().all(|character| !character.is_ascii_uppercase() && character != '[') {
                    parsed(line).unwrap_or_else(|error| panic!("{page}: `cargo xtask {line}`: {error}"));
                    lines += 1;
                }
            }
        }
        assert!(lines > 15, "the documents have commands");
    }

    #[test]
    fn errors_name_the_invalid_argument() {
        assert_eq!(parsed(""), Err("the command is missing".to_owned()));
        assert_eq!(parsed("dance"), Err("unknown command `dance`".to_owned()));
        assert_eq!(parsed("tidy --fast"), Err("`tidy` does not take `--fast`".to_owned()));
    }
}
