//! Memory that clients make the gateway hold: budgets that follow from the container's limit.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tetris_service_kit::budget::Budget;
use tetris_service_kit::freed_pages::give_back;

use crate::config::Limits;

/// Limit that is assumed without a container's.
const UNLIMITED: u64 = 4 << 30;
/// Parts of the limit, of eight. The other two are for code, instances' connections, sockets and bytes that no
/// budget counts, such as those of a head that is being decoded.
const OF_EIGHT: u64 = 8;
const HEADS: u64 = 2;
const BODIES: u64 = 3;
const PAGES: u64 = 1;
/// Largest budgets used without a configured one.
const MOST_HEADS: u64 = 1 << 30;
const MOST_BODIES: u64 = 256 << 20;
/// Largest budget for pages of executors, of which one gets half. Pages are held for a moment.
const MOST_PAGES: u64 = 64 << 20;
/// Interval in which the use of memory is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Least memory whose pages are returned to the system, in bytes.
const MUCH: usize = 8 << 20;
/// Part of the limit that a thread may need for heads that it decodes, in bytes.
const THREAD: u64 = 16 << 20;

/// Sizes of the budgets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Heads, with the buffers of their connections, and output that clients have not read.
    pub heads: usize,
    /// Bodies of requests.
    pub bodies: usize,
    /// Pages of executors on GPUs.
    pub pages: usize,
}

impl Sizes {
    /// Returns the configured sizes, or else those that fit a container with this memory limit.
    pub fn of(limits: &Limits, container: Option<u64>) -> Self {
        let limit = container.unwrap_or(UNLIMITED);
        let part =
            |parts: u64, most: u64| bytes((limit / OF_EIGHT).saturating_mul(parts).min(most));
        // One client gets half of a budget at most, and the largest body must fit.
        let least = limits.body_bytes.saturating_mul(2);
        Self {
            heads: limits.heads_bytes.unwrap_or(part(HEADS, MOST_HEADS)),
            bodies: limits
                .bodies_bytes
                .unwrap_or(part(BODIES, MOST_BODIES).max(least)),
            pages: part(PAGES, MOST_PAGES),
        }
    }

    /// Warns of sizes that a container with this memory limit cannot hold.
    pub fn warn_beyond(self, container: Option<u64>) {
        let Some(limit) = container else { return };
        if self.are_beyond(limit) {
            tracing::warn!(
                limits.heads = self.heads,
                limits.bodies = self.bodies,
                found = limit,
                "the budgets exceed five eighths of the container's memory limit: lower them, or raise the limit"
            );
        }
    }

    fn are_beyond(self, limit: u64) -> bool {
        let all = (self.heads as u64).saturating_add(self.bodies as u64);
        all > (limit / OF_EIGHT).saturating_mul(HEADS.saturating_add(BODIES))
    }
}

/// Largest number of threads for which a container with this memory limit has room.
pub(crate) fn most_threads(container: Option<u64>) -> usize {
    bytes(container.map_or(u64::MAX, |limit| limit / THREAD)).max(1)
}

/// Budgets of the process. Clones share them.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Heads, buffers of connections and unread output, by client.
    pub(crate) heads: Budget<IpAddr>,
    /// Bodies of requests, by client.
    pub(crate) bodies: Budget<IpAddr>,
    /// The same bodies, by the number of their function.
    pub(crate) by_function: Budget<u64>,
    /// Pages of executors, by their address.
    pub(crate) pages: Budget<SocketAddr>,
}

impl Memory {
    /// Creates budgets of these sizes.
    pub fn new(sizes: Sizes) -> Self {
        Self {
            heads: Budget::new(sizes.heads),
            bodies: Budget::new(sizes.bodies),
            by_function: Budget::new(sizes.bodies),
            pages: Budget::new(sizes.pages),
        }
    }
}

/// Returns pages to the system after each time of much use, for ever.
pub(crate) async fn follow(memory: &Memory) {
    let mut peak = Peak::default();
    loop {
        tokio::time::sleep(LOOK).await;
        let used = memory.heads.used().saturating_add(memory.bodies.used());
        let used = used.saturating_add(memory.pages.used());
        if peak.is_over(used) {
            // It may take milliseconds.
            drop(tokio::task::spawn_blocking(give_back).await);
        }
    }
}

/// The largest use since pages were returned.
#[derive(Debug, Default)]
struct Peak(usize);

impl Peak {
    /// Returns true if at least half of a large use is over.
    fn is_over(&mut self, used: usize) -> bool {
        self.0 = self.0.max(used);
        let is_over = self.0.saturating_sub(used) >= MUCH.max(self.0 / 2);
        if is_over {
            self.0 = used;
        }
        is_over
    }
}

/// Address by which a client counts: that of its host, or its network where a host has many.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            // A host has a whole /64 to choose from (RFC 6177).
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn budgets_leave_three_eighths_of_the_containers_limit() {
        let limits = Limits::default();
        let sizes = Sizes::of(&limits, Some(512 * MIB));
        assert_eq!((sizes.heads, sizes.bodies), (128 << 20, 192 << 20));
        assert_eq!(sizes.pages, 64 << 20);
        assert!(!sizes.are_beyond(512 * MIB) && sizes.are_beyond(511 * MIB));
        for limit in [64 * MIB, 100 * MIB, 4 << 30, 1 << 40] {
            assert!(
                !Sizes::of(&limits, Some(limit)).are_beyond(limit),
                "{limit}"
            );
        }
        let sizes = Sizes::of(&limits, None);
        assert_eq!((sizes.heads, sizes.bodies), (1 << 30, 256 << 20));
    }

    #[test]
    fn configured_budgets_stay_and_the_largest_body_fits_into_a_clients_half() {
        let mut limits = Limits {
            body_bytes: 256 << 20,
            ..Limits::default()
        };
        assert_eq!(Sizes::of(&limits, Some(512 * MIB)).bodies, 512 << 20);
        limits.heads_bytes = Some(1);
        limits.bodies_bytes = Some(2);
        let sizes = Sizes::of(&limits, Some(512 * MIB));
        assert_eq!((sizes.heads, sizes.bodies), (1, 2));
    }

    #[test]
    fn pages_are_returned_once_after_much_use() {
        let mut peak = Peak::default();
        let used = [
            0,
            MUCH - 1,
            0,
            MUCH * 4,
            MUCH * 2 + 1,
            MUCH * 2,
            MUCH,
            MUCH * 2,
            0,
            0,
        ];
        let over = used.map(|used| peak.is_over(used));
        let expected = [
            false, false, false, false, false, true, true, false, true, false,
        ];
        assert_eq!(over, expected);
    }

    #[test]
    fn threads_are_as_many_as_fit() {
        assert_eq!(most_threads(Some(512 * MIB)), 32);
        assert_eq!(most_threads(Some(MIB)), 1);
        assert!(most_threads(None) > 1 << 20);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
