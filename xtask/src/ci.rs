//! `cargo xtask ci`: runs all steps of CI, up to the first failure.

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::stopwatch::Stopwatch;
use crate::workspace::Workspace;
use crate::{loom, spec, test, tidy};

/// One step of CI.
struct Step {
    name: &'static str,
    work: Work,
}

enum Work {
    Cargo(Call<'static>),
    /// A command of xtask: how it is typed, and its function.
    Xtask(&'static str, fn(&Workspace) -> Result<String>),
}

/// The tests come last, so that their summary ends the output.
const STEPS: [Step; 7] = [
    Step { name: "fmt", work: cargo(&["fmt", "--all", "--check"]) },
    Step { name: "clippy", work: cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]) },
    Step { name: "tidy", work: Work::Xtask("cargo xtask tidy", tidy::run) },
    Step { name: "spec", work: Work::Xtask("cargo xtask spec --check", spec::check) },
    Step {
        name: "doc",
        work: Work::Cargo(Call {
            environment: &[("RUSTDOCFLAGS", "-D warnings")],
            arguments: &["doc", "--workspace", "--no-deps"],
        }),
    },
    Step { name: "loom", work: Work::Xtask("cargo xtask loom", loom::run) },
    Step { name: "test", work: Work::Xtask("cargo xtask test", test::run_all) },
];

const fn cargo(arguments: &'static [&'static str]) -> Work {
    Work::Cargo(Call { environment: &[], arguments })
}

/// Runs all steps and returns the summary of the last one.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let mut summary = String::new();
    for step in &STEPS {
        if !summary.is_empty() {
            println!("{summary}");
        }
        summary = step.run(workspace)?;
    }
    Ok(summary)
}

impl Step {
    fn run(&self, workspace: &Workspace) -> Result<String> {
        println!("ci: {} …", self.name);
        let started = Stopwatch::start();
        let outcome = match &self.work {
            Work::Cargo(call) => call.run(workspace).map(|()| String::new()),
            Work::Xtask(_, run) => run(workspace),
        };
        println!("ci: {} took {:.1} s", self.name, started.seconds());
        outcome.map_err(|failure| self.failed(&failure))
    }

    fn failed(&self, failure: &Failure) -> Failure {
        let command = match &self.work {
            Work::Cargo(call) => call.to_string(),
            Work::Xtask(typed, _) => (*typed).to_owned(),
        };
        Failure::new(format!("{failure}\nci: step `{}` failed; run it alone with `{command}`", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_its_command() {
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
