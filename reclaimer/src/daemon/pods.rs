//! Limits of the process for the pods' sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that a node with many stores and clients may need.
const FILES: u64 = 1 << 20;

/// Raises the limit on open files up to the hard limit. A message of a pod can carry 253
/// descriptors, which are open for a moment.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current, ..limit }) {
            tracing::warn!(%error, wanted, "the limit on open files (RLIMIT_NOFILE) stays as it is");
        }
    }
}
