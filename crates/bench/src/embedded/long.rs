//! Ten minutes of 16 unbatched callers, alternating between our store and the limit, to check that the ratio does not
//! drop.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use oncebox_system::uptime;

use super::raw::Raw;
use super::store::open_store;
use super::work_dir::WorkDir;
use crate::drive::{Bench, Load, Style};
use crate::messages::Messages;
use crate::ours::Ours;
use crate::pairs::{alternate, median};
use crate::report::Report;

const LOAD: Load = Load { callers: 16, batch: 1, payload_bytes: 256, style: Style::ThreeCalls };
const MINUTES: u32 = 10;

pub(crate) fn run(bench: &Bench, work_dir: &WorkDir, report: &mut Report) {
    println!("\nten minutes, {} unbatched callers, {} B payloads", LOAD.callers, LOAD.payload_bytes);
    println!("{:>6} {:>10} {:>10} {:>7}", "minute", "ours/s", "raw/s", "ratio");
    let mut source = Messages::new(LOAD.payload_bytes);
    let ours = Ours::new(bench, Arc::new(open_store(&work_dir.fresh("ours"), None, false)), LOAD);
    let raw = Raw::open(&work_dir.fresh("raw"), false);
    let mut our_expected = bench.calibrate(&ours, LOAD, &mut source);
    let mut raw_expected = bench.calibrate(&raw, LOAD, &mut source);
    let source = RefCell::new(source);
    let mut minutes = Vec::new();
    for minute in 1..=MINUTES {
        let end = uptime() + Duration::from_secs(60);
        // Two pairs at a time, so that each side goes first once.
        let (mut our_rates, mut raw_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        while uptime() < end {
            let pairs = alternate(
                2,
                || bench.run(&ours, LOAD, &mut source.borrow_mut(), &mut our_expected).per_second,
                || bench.run(&raw, LOAD, &mut source.borrow_mut(), &mut raw_expected).per_second,
            );
            our_rates.push(pairs.ours_per_second);
            raw_rates.push(pairs.rival_per_second);
            ratios.push(pairs.ratio);
        }
        let ratio = median(ratios);
        println!("{minute:>6} {:>10.0} {:>10.0} {ratio:>7.2}", median(our_rates), median(raw_rates));
        minutes.push(ratio);
    }
    report.figure("embedded.long.last_to_first", minutes[minutes.len() - 1] / minutes[0]);
}
