//! Prints figures to stdout and writes them to a JSON file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

/// Named figures: only ratios and sizes, which can be compared between runs.
#[derive(Default)]
pub(crate) struct Report {
    figures: BTreeMap<String, f64>,
}

impl Report {
    pub(crate) fn figure(&mut self, name: &str, value: f64) {
        println!("{name} = {value:.3}");
        self.figures.insert(name.to_owned(), value);
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, format!("{:#}\n", json!({ "figures": self.figures })))
    }
}

/// Prints the machine that the figures are measured on.
pub(crate) fn print_machine() {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    println!("machine: {model}, {cores} cores, kernel {}", kernel.trim());
    println!("build: {}", if cfg!(debug_assertions) { "debug (figures are meaningless)" } else { "release" });
}
