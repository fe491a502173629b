//! What profile and amnesia imply for each other and for the store.

use crate::config::draft::Draft;
use crate::config::field::Value;
use crate::config::origin::Origin;
use crate::config::problem::Problems;
use crate::config::sections::{Profile, STORE_AMNESIA};
use crate::config::store;
use crate::config::table::find;
use crate::config::target::Target;

/// Applies what the profile and amnesia imply to settings that were not set. Returns the warnings.
pub(super) fn apply_implied(draft: &mut Draft, problems: &mut Problems) -> Vec<String> {
    let targets = (find("profile"), find("amnesia"), find("store"));
    let (Some(profile), Some(amnesia), Some(store)) = targets else { return Vec::new() };
    let (profile, amnesia, store) = (Target::of(profile), Target::of(amnesia), Target::of(store));
    if [&profile, &amnesia, &store].iter().any(|target| draft.is_invalid(target)) {
        return Vec::new();
    }
    if draft.config.profile == Profile::Micronode && !draft.origins.has(&amnesia) {
        draft.set(&amnesia, Value::Bool(true), Origin::Follows("profile"));
    }
    let store_set = draft.origins.has(&store);
    if draft.config.amnesia && !store_set {
        draft.set(&store, Value::Text(STORE_AMNESIA.to_owned()), Origin::Follows("amnesia"));
    }
    let in_memory = store::is_memory(&draft.config.store);
    let (amnesia, store) = (draft.origins.effective(&amnesia), draft.origins.effective(&store));
    if draft.config.amnesia && !in_memory {
        let url = crate::config::redact::shown(&draft.config.store);
        let fault = format!(
            "is {url}, but amnesia ({amnesia}) keeps nothing on disk: set it to `memory:`, or set amnesia to false"
        );
        problems.at("store", &store, &fault);
    }
    warnings(draft, &amnesia, &store)
}

fn warnings(draft: &Draft, amnesia: &Origin, store: &Origin) -> Vec<String> {
    let config = &draft.config;
    let mut warnings = Vec::new();
    if config.amnesia && config.profile == Profile::Macronode {
        warnings.push(format!(
            "amnesia ({amnesia}) is on: all messages, including dead letters, are lost when the process ends"
        ));
    }
    if !config.amnesia && store::is_memory(&config.store) {
        warnings.push(format!(
            "store ({store}) is in memory: all messages, including dead letters, are lost when the process ends; \
             set amnesia to true to confirm that this is intended"
        ));
    }
    warnings
}
