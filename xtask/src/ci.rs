//! `cargo xtask ci`: all of CI, step by step, stopping at the first failure.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::stopwatch::Stopwatch;
use crate::workspace::Workspace;
use crate::{loom, spec, test, tidy};

/// One thing that must hold before a change goes in.
struct Step {
    name: &'static str,
    work: Work,
}

enum Work {
    Cargo(Call<'static>),
    /// A command of ours: how it is typed, and what runs.
    Own(&'static str, fn(&Workspace) -> Result<String>),
}

/// The tests come last, so that the runner's closing lines end the output.
const STEPS: [Step; 7] = [
    Step { name: "fmt", work: cargo(&["fmt", "--all", "--check"]) },
    Step { name: "clippy", work: cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]) },
    Step { name: "tidy", work: Work::Own("cargo xtask tidy", tidy::run) },
    Step { name: "spec", work: Work::Own("cargo xtask spec --check", spec::check) },
    Step {
        name: "doc",
        work: Work::Cargo(Call {
            environment: &[("RUSTDOCFLAGS", "-D warnings")],
            arguments: &["doc", "--workspace", "--no-deps"],
        }),
    },
    Step { name: "loom", work: Work::Own("cargo xtask loom", loom::run) },
    Step { name: "test", work: Work::Own("cargo xtask test", test::run_all) },
];

const fn cargo(arguments: &'static [&'static str]) -> Work {
    Work::Cargo(Call { environment: &[], arguments })
}

/// Runs every step; the closing line is the last step's own.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let mut closing = String::new();
    for step in &STEPS {
        if !closing.is_empty() {
            println!("{closing}");
        }
        closing = step.run(workspace)?;
    }
    Ok(closing)
}

impl Step {
    fn run(&self, workspace: &Workspace) -> Result<String> {
        println!("ci: {} …", self.name);
        let started = Stopwatch::start();
        let outcome = match &self.work {
            Work::Cargo(call) => call.run(workspace).map(|()| String::new()),
            Work::Own(_, run) => run(workspace),
        };
        println!("ci: {} took {:.1} s", self.name, started.seconds());
        outcome.map_err(|failure| self.failed(&failure))
    }

    fn failed(&self, failure: &Failure) -> Failure {
        let alone = match &self.work {
            Work::Cargo(call) => call.to_string(),
            Work::Own(typed, _) => (*typed).to_owned(),
        };
        Failure::new(format!("{failure}\nci: step `{}` failed; run it alone with `{alone}`", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_says_how_to_run_it_alone() {
        let doc = STEPS.iter().find(|step| step.name == "doc").unwrap();
        let text = doc.failed(&Failure::new("broken")).to_string();
        assert!(text.contains("step `doc` failed"));
        assert!(text.ends_with("`RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace --no-deps`"));
    }

    #[test]
    fn the_tests_come_last() {
        assert_eq!(STEPS.last().unwrap().name, "test");
    }
}
