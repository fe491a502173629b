//! Paired rounds: our run and the rival's directly after each other, so that both see the same machine state.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Rates per second of one comparison: the median of each side, and the median of the ratios of adjacent rounds.
pub(crate) struct Comparison {
    pub(crate) ours_per_second: f64,
    pub(crate) rival_per_second: f64,
    pub(crate) ratio: f64,
}

/// Runs `rounds` pairs of runs that return their own rate. The side that goes first alternates.
pub(crate) fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut rival: impl FnMut() -> f64,
) -> Comparison {
    let Ok(comparison) = try_alternate::<Infallible>(rounds, || Ok(ours()), || Ok(rival()));
    comparison
}

/// The same for runs that can fail; stops at the first error.
pub(crate) fn try_alternate<E>(
    rounds: usize,
    mut ours: impl FnMut() -> Result<f64, E>,
    mut rival: impl FnMut() -> Result<f64, E>,
) -> Result<Comparison, E> {
    let (mut our_rates, mut rival_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (our_rate, rival_rate) = if round % 2 == 0 {
            let our_rate = ours()?;
            (our_rate, rival()?)
        } else {
            let rival_rate = rival()?;
            (ours()?, rival_rate)
        };
        our_rates.push(our_rate);
        rival_rates.push(rival_rate);
        ratios.push(our_rate / rival_rate);
    }
    Ok(Comparison {
        ours_per_second: median(our_rates),
        rival_per_second: median(rival_rates),
        ratio: median(ratios),
    })
}

/// Times `rounds` pairs. Each pair gets a new input, prepared outside the measured time. One run does `count`
/// operations.
pub(crate) fn compare<T>(
    rounds: usize,
    count: u32,
    mut prepare: impl FnMut() -> T,
    mut ours: impl FnMut(&T),
    mut rival: impl FnMut(&T),
) -> Comparison {
    let rate = |time: Duration| f64::from(count) / time.as_secs_f64();
    // The first side of a pair prepares the input, the second one drops it.
    let input = RefCell::new(None);
    let run = |side: &mut dyn FnMut(&T)| {
        let (made, first) = input.take().map_or_else(|| (prepare(), true), |made| (made, false));
        let rate = rate(time(|| side(&made)));
        input.replace(first.then_some(made));
        rate
    };
    let run = RefCell::new(run);
    alternate(rounds, || run.borrow_mut()(&mut ours), || run.borrow_mut()(&mut rival))
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
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
    fn both_sides_of_a_pair_get_the_same_input() {
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
