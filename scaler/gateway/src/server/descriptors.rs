//! Room for the descriptors of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Limits;

/// Descriptors of four that clients' connections take at most. The rest is for instances' connections,
/// listeners, pages and files.
const OF_CLIENTS: usize = 3;
const OF_FOUR: usize = 4;

/// Raises the limit on open files to what `limits` need, as far as the hard one permits. Returns limits
/// that fit: without descriptors the gateway could accept no one, and one client would keep out all
/// others.
pub(super) fn make_room(limits: Limits) -> Limits {
    let wanted = (limits.connections / OF_CLIENTS).saturating_add(1);
    let wanted = wanted.saturating_mul(OF_FOUR) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return limits;
    }
    let new = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let current = Some(new);
    // A failure leaves the limit as it was.
    let _unchanged = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    let allowed = getrlimit(Resource::Nofile).current;
    let fitting = fitting(limits, allowed.unwrap_or(u64::MAX));
    if fitting != limits {
        tracing::warn!(
            expected = wanted,
            allowed,
            connections = fitting.connections,
            connections_per_client = fitting.connections_per_client,
            "few open files are permitted (RLIMIT_NOFILE): fewer connections than limits.connections"
        );
    }
    fitting
}

/// Limits for so many descriptors. If there are fewer connections than `limits` say, one client gets
/// three quarters of them at most.
fn fitting(limits: Limits, descriptors: u64) -> Limits {
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let part = |of: usize| (of / OF_FOUR).saturating_mul(OF_CLIENTS).max(1);
    let connections = part(descriptors);
    if connections >= limits.connections {
        return limits;
    }
    Limits {
        connections,
        connections_per_client: limits.connections_per_client.min(part(connections)),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_few_descriptors_there_are_fewer_connections_and_one_client_gets_three_quarters() {
        let limits = Limits::default();
        assert_eq!(fitting(limits, 26_668), limits);
        let of = |descriptors| {
            let fitting = fitting(limits, descriptors);
            (fitting.connections, fitting.connections_per_client)
        };
        assert_eq!(of(26_667), (19_998, 4_096));
        assert_eq!(of(4_096), (3_072, 2_304));
        assert_eq!(of(1_024), (768, 576));
        assert_eq!(of(0), (1, 1));
    }
}
