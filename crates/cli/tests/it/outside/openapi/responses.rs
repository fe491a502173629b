//! Response statuses per operation: counted by the hooks, summed here.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// How often each operation returned each status.
#[derive(Debug, Default)]
pub(super) struct Responses(BTreeMap<String, BTreeMap<u16, u64>>);

impl Responses {
    #[track_caller]
    pub(super) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).ok();
        text.as_deref().and_then(Self::parse).expect("the hooks have written their counts")
    }

    /// Parses tab-separated lines of operation, status and count; the same operation and status may occur several
    /// times.
    fn parse(text: &str) -> Option<Self> {
        let mut responses = Self::default();
        for line in text.lines() {
            let [operation, status, count] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
            let statuses = responses.0.entry(operation.to_owned()).or_default();
            *statuses.entry(status.parse().ok()?).or_default() += count.parse::<u64>().ok()?;
        }
        Some(responses)
    }

    pub(super) fn requests(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }

    pub(super) fn operations(&self) -> usize {
        self.0.len()
    }

    /// The operations that never returned 200.
    pub(super) fn without_success(&self) -> Vec<&str> {
        let failing = self.0.iter().filter(|(_, statuses)| !statuses.contains_key(&200));
        failing.map(|(operation, _)| operation.as_str()).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        for (operation, statuses) in &self.0 {
            let _ = write!(table, "  {operation:32}");
            for (status, count) in statuses {
                let _ = write!(table, "  {status}: {count}");
            }
            table.push('\n');
        }
        table
    }
}

#[test]
fn counts_are_summed_and_operations_without_success_are_named() {
    let responses = Responses::parse("GET /a\t200\t2\nGET /b\t400\t3\nGET /a\t200\t1\n").expect("lines");
    assert_eq!((responses.requests(), responses.operations()), (6, 2));
    assert_eq!(responses.without_success(), ["GET /b"]);
    assert!(responses.table().contains("200: 3"));
    assert!(Responses::parse("nonsense").is_none());
}
