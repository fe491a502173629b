//! Rules between settings.

mod order;
mod profile;
mod reach;

use super::draft::Draft;
use super::problem::Problems;

pub(super) use order::sentences;

/// Applies what the profile implies, and reports every violated rule. Returns the warnings.
pub(super) fn check(draft: &mut Draft, problems: &mut Problems) -> Vec<String> {
    let warnings = profile::apply_implied(draft, problems);
    order::check(draft, problems);
    reach::check(draft, problems);
    if problems.is_empty() {
        // Problems that only the library detects: the server must not fail on them later.
        for invalid in draft.config.mailbox.problems() {
            problems.add(format!("mailbox: {invalid}"));
        }
    }
    warnings
}
