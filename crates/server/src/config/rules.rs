//! What must hold between settings.

mod order;
mod profile;

use super::draft::Draft;
use super::problem::Problems;

pub(super) use order::sentences;

/// Settles what follows from the profile, and tells every rule that does not hold. Gives the warnings.
pub(super) fn check(draft: &mut Draft, problems: &mut Problems) -> Vec<String> {
    let warnings = profile::settle(draft, problems);
    order::check(draft, problems);
    if problems.is_empty() {
        // What the library refuses beyond the rules that are told here: the server must not fail later for it.
        for invalid in draft.config.mailbox.problems() {
            problems.add(format!("mailbox: {invalid}"));
        }
    }
    warnings
}
