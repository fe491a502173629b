//! Paired rounds: ours and the rival's right after each other, so that both meet the same machine.

use std::time::{Duration, Instant};

/// Rates per second of one comparison: the median of each side, and the median of the ratios of adjacent rounds.
pub(crate) struct Comparison {
    pub(crate) ours_per_second: f64,
    pub(crate) rival_per_second: f64,
    pub(crate) ratio: f64,
}

/// Times `rounds` pairs on the same input, made anew for each pair outside the measured time. One run does `count` things.
/// The side that goes first changes from round to round.
pub(crate) fn compare<T>(
    rounds: usize,
    count: u32,
    mut prepare: impl FnMut() -> T,
    mut ours: impl FnMut(&T),
    mut rival: impl FnMut(&T),
) -> Comparison {
    let (mut our_rates, mut rival_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let input = prepare();
        let (our_time, rival_time) = if round % 2 == 0 {
            let our_time = time(|| ours(&input));
            (our_time, time(|| rival(&input)))
        } else {
            let rival_time = time(|| rival(&input));
            (time(|| ours(&input)), rival_time)
        };
        our_rates.push(f64::from(count) / our_time.as_secs_f64());
        rival_rates.push(f64::from(count) / rival_time.as_secs_f64());
        ratios.push(rival_time.as_secs_f64() / our_time.as_secs_f64());
    }
    Comparison {
        ours_per_second: median(our_rates),
        rival_per_second: median(rival_rates),
        ratio: median(ratios),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// How long `work` takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::{compare, median};

    #[test]
    fn both_sides_of_a_pair_get_the_same_input_and_the_ratio_is_ours_to_the_rivals() {
        let (mut made, mut ours, mut rivals) = (0, Vec::new(), Vec::new());
        let prepare = || {
            made += 1;
            made
        };
        let comparison = compare(7, 100, prepare, |input| ours.push(*input), |input| rivals.push(*input));
        assert_eq!((ours.len(), &ours), (7, &rivals));
        assert!(comparison.ratio > 0.0);
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
