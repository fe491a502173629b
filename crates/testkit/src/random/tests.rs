//! Tests of the comparison itself: a store made of the model passes, and one that deviates is detected.

use super::{Extent, random_comparison, run_many};
use crate::fixture::block_on;

use model_store::{Deviation, open};

mod model_store;

#[test]
fn a_store_made_of_the_model_passes() {
    let report = run_many(|| open(Deviation::None), Extent { cases: 40, ..Extent::DEFAULT });
    assert_eq!(report.missing(), Vec::<&str>::new());
}

#[test]
fn a_store_that_deviates_is_detected() {
    for deviation in Deviation::ALL {
        let found = (0..40).find_map(|seed| block_on(random_comparison(|| open(deviation), seed, 200)).err());
        let mismatch = found.unwrap_or_else(|| panic!("{deviation:?} is not detected"));
        assert!(mismatch.to_string().contains("ONCEBOX_MODEL_SEED="), "{mismatch}");
    }
}
