//! File descriptors: each connection uses one, and many systems start a process with a soft limit below its hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// File descriptors for the store, its connections and the log.
const OTHER_DESCRIPTORS: usize = 256;

/// Raises the soft limit to the hard limit, and warns if that is too low for the connections that the settings allow.
pub(super) fn raise(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let effective = if raised.is_ok() { limit.maximum } else { limit.current };
    let needed = connections_max.saturating_add(OTHER_DESCRIPTORS);
    if let Some(effective) = effective
        && usize::try_from(effective).is_ok_and(|effective| effective < needed)
    {
        warn!(
            limit = effective,
            needed,
            "file descriptor limit is below what the settings allow: raise `ulimit -n`, or lower \
             http.connections_max"
        );
    }
}
