//! Other libraries: graphile-worker, in its own language and with the settings that its documentation recommends for
//! throughput. It deletes finished jobs.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use super::cell::{Cell, Rounds};
use crate::embedded::work_dir::WorkDir;
use crate::messages::Messages;
use crate::pairs::{Comparison, try_alternate};

const PACKAGE: &str = "graphile-worker@0.17.3";
const SCRIPT: &str = include_str!("libraries/graphile_worker.mjs");

/// The library, installed with npm until this is dropped.
pub(super) struct GraphileWorker {
    script: PathBuf,
    _work_dir: WorkDir,
}

/// The output of the script.
#[derive(Deserialize)]
struct Outcome {
    per_second: f64,
    left: u64,
}

impl GraphileWorker {
    pub(super) fn install() -> Result<Self, String> {
        let work_dir = WorkDir::create();
        let folder = work_dir.fresh("graphile_worker");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&folder).arg(PACKAGE);
        output(&mut npm, "npm (Debian packages nodejs and npm)")?;
        let script = folder.join("lifecycle.mjs");
        std::fs::write(&script, SCRIPT).map_err(|error| format!("cannot write the script: {error}"))?;
        Ok(Self { script, _work_dir: work_dir })
    }

    /// Pairs our usual rounds with rounds of the library, which sends jobs and then drains them.
    pub(super) fn compare(&self, cell: &Cell<'_>) -> Result<Comparison, String> {
        let Cell { bench, server, load, rounds } = *cell;
        let (tables, ours) = server.ours(bench, load)?;
        let source = RefCell::new(Messages::new(load.payload_bytes));
        let mut ours = Rounds::begin(cell, ours, &source)?;
        let url = server.fresh_database()?;
        self.round(cell, &url)?;
        let comparison =
            try_alternate(rounds, || ours.next().map(|run| run.per_second), || self.round(cell, &url))?;
        server.retire(bench, &tables)?;
        Ok(comparison)
    }

    fn round(&self, cell: &Cell<'_>, url: &str) -> Result<f64, String> {
        let (callers, batch) = (cell.load.callers.to_string(), cell.load.batch.to_string());
        let mut node = Command::new("node");
        node.arg(&self.script).args([url, &callers, &batch, &cell.bench.seconds.to_string()]);
        let printed = output(&mut node, "node")?;
        let outcome: Result<Outcome, _> = serde_json::from_str(&printed);
        let Outcome { per_second, left } =
            outcome.map_err(|error| format!("unexpected output of graphile-worker '{printed}': {error}"))?;
        if left > 0 {
            return Err(format!("graphile-worker left {left} jobs behind"));
        }
        Ok(per_second)
    }
}

fn output(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
