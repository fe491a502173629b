//! The comparison compared: a store made of the model passes, and one that deviates is found out.

use super::{Extent, random_comparison, run_many};
use crate::fixture::block_on;

use model_store::{Lie, open};

mod model_store;

#[test]
fn a_store_made_of_the_model_passes() {
    let report = run_many(|| open(Lie::None), Extent { cases: 40, ..Extent::ORDINARY });
    assert_eq!(report.missing(), Vec::<&str>::new());
}

#[test]
fn a_store_that_deviates_is_found_out() {
    for lie in Lie::ALL {
        let found = (0..40).find_map(|seed| block_on(random_comparison(|| open(lie), seed, 200)).err());
        let mismatch = found.unwrap_or_else(|| panic!("{lie:?} stays hidden"));
        assert!(mismatch.to_string().contains("ONCEBOX_MODEL_SEED="), "{mismatch}");
    }
}
