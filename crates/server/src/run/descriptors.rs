//! Descriptors: each connection takes one, and many systems start a process with fewer than it may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// For the store, its connections and the log.
const OTHERS: usize = 256;

/// Raises the limit of this process as far as it may, and warns where that is too little for the connections that the
/// settings allow.
pub(super) fn raise(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let holds = if raised.is_ok() { limit.maximum } else { limit.current };
    let wanted = connections_max.saturating_add(OTHERS);
    if let Some(holds) = holds
        && usize::try_from(holds).is_ok_and(|holds| holds < wanted)
    {
        warn!(
            limit = holds,
            wanted,
            "too few file descriptors for the connections that the settings allow: raise `ulimit -n`, or lower \
             http.connections_max"
        );
    }
}
