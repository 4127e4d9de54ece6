//! Room for the descriptors of clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A socket, a bell, the client's process, and one that is on its way to the client.
const PER_CONNECTION: u64 = 4;
/// Descriptors of the rest of the daemon: files of stores, sockets, watches, and chunks of the
/// simulated device.
const OTHERS: u64 = 2048;

/// Raises the limit on open files, as far as the hard one permits, so that as many connections can
/// be served.
pub(super) fn make_room(connections: usize) {
    let wanted = PER_CONNECTION * connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let new = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(new),
            ..limit
        },
    );
    if raised.is_err() || new < wanted {
        let found = getrlimit(Resource::Nofile).current;
        tracing::warn!(
            expected = wanted,
            found,
            "few open files are permitted (RLIMIT_NOFILE): the GPU mirror serves fewer clients than gpu_mirror.connections"
        );
    }
}
