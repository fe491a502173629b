//! `cargo xtask api-fuzz`: a real server, and requests that schemathesis makes from the server's own description.
//!
//! Rounds go on until enough requests were answered, each with the next seed. A round fails on answers of 500 and above, on
//! answers that the description does not foresee, on wrong requests that are taken and right ones that are refused. In the end
//! every operation must have been answered 200 at least once, else the run was shallow, and the server must still live.
//! Which checks are off, and why, stands in `xtask/api-fuzz/`.

mod answers;
mod server;
mod venv;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use answers::Answers;
use server::Server;

/// Requests per operation and round.
const EXAMPLES: &str = "60";
/// A round that takes longer hangs.
const ROUND_SECONDS_MAX: &str = "1200";
const ROUNDS_MAX: u64 = 200;
const SERVER: [&str; 4] = ["build", "-q", "-p", "oncebox-cli"];

/// How many requests at least, and from which seed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApiFuzz {
    pub(crate) requests: u64,
    pub(crate) seed: u64,
}

pub(crate) fn run(workspace: &Workspace, fuzz: &ApiFuzz) -> Result<String> {
    Call { environment: &[], arguments: &SERVER }.run(workspace)?;
    let place = Place::new()?;
    let schemathesis = venv::schemathesis(&place.root)?;
    println!("api-fuzz: {} requests, seed {}", fuzz.requests, fuzz.seed);
    let mut server = Server::start(&place.program, &place.data)?;
    let mut answers = Answers::default();
    for seed in (fuzz.seed..).take(usize::try_from(ROUNDS_MAX).unwrap_or(usize::MAX)) {
        place.round(workspace, &schemathesis, &server.url, seed)?;
        server.must_live()?;
        answers = Answers::read(&place.answers)?;
        println!("api-fuzz: seed {seed}, {} requests so far", answers.requests());
        if answers.requests() >= fuzz.requests {
            break;
        }
    }
    drop(server);
    println!("{}", answers.table());
    let shallow = answers.without_success();
    if !shallow.is_empty() {
        let text =
            format!("never answered 200: {}; lead it there in xtask/api-fuzz/hooks.py", shallow.join(", "));
        return Err(Failure::new(text));
    }
    let (requests, operations) = (answers.requests(), answers.operations());
    Ok(format!("api-fuzz: {requests} requests to {operations} operations, all answered as described"))
}

/// Where everything is: beside the binaries, where `cargo clean` finds it.
struct Place {
    root: PathBuf,
    program: PathBuf,
    data: PathBuf,
    answers: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        let cannot = |error| Failure::new(format!("the target directory is not known ({error})"));
        let own = env::current_exe().map_err(cannot)?;
        let program = own.with_file_name("oncebox");
        let root = own.with_file_name("api-fuzz");
        let (data, answers) = (root.join("data"), root.join("answers.tsv"));
        let _ = fs::remove_dir_all(&data);
        let _ = fs::remove_file(&answers);
        fs::create_dir_all(&root)
            .map_err(|error| Failure::new(format!("{} cannot be made ({error})", root.display())))?;
        Ok(Self { root, program, data, answers })
    }

    /// One run of schemathesis; its output goes where ours goes.
    fn round(&self, workspace: &Workspace, schemathesis: &Path, url: &str, seed: u64) -> Result<()> {
        let settings = workspace.root().join("xtask/api-fuzz");
        let seed = seed.to_string();
        let mut command = Command::new("timeout");
        command.arg(ROUND_SECONDS_MAX).arg(schemathesis);
        command.arg("--config-file").arg(settings.join("schemathesis.toml"));
        command.args(["run", &format!("{url}/openapi.json"), "--phases", "examples,coverage,fuzzing"]);
        command.args([
            "--max-examples",
            EXAMPLES,
            "--seed",
            &seed,
            "--workers",
            "2",
            "--continue-on-failure",
        ]);
        command.args(["--request-timeout", "20", "--generation-database", "none", "--no-color"]);
        command.env("SCHEMATHESIS_HOOKS", settings.join("hooks.py"));
        command.env("ONCEBOX_API_FUZZ_SEED", &seed).env("ONCEBOX_API_FUZZ_ANSWERS", &self.answers);
        command.env("ONCEBOX_API_FUZZ_URL", url).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(&self.root);
        let status = command.status();
        let status =
            status.map_err(|error| Failure::new(format!("schemathesis cannot be started ({error})")))?;
        if status.success() {
            return Ok(());
        }
        let log = self.data.with_extension("log");
        let text = format!(
            "the round with seed {seed} failed: see above, and the server's log in {}",
            log.display()
        );
        Err(Failure::new(text))
    }
}
