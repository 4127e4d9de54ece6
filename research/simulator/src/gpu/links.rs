//! Links whose bandwidth transfers share equally.

use tetris_scaler_dispatch::gpu::{GpuId, Source, Topology};

/// A link: a switch to the host, or a link from one GPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Host(u32),
    Peer(GpuId, GpuId),
}

#[derive(Clone, Debug)]
struct Transfer {
    gpu: GpuId,
    link: Link,
    bytes_per_s: u64,
    /// Rest in bytes times 10^6, so that bytes per second times microseconds are subtracted from it.
    rest: u128,
}

/// Transfers in progress, one per GPU at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    transfers: Vec<Transfer>,
    at_us: u64,
}

impl Links {
    /// Starts a transfer to a GPU.
    pub(super) fn start(
        &mut self,
        now_us: u64,
        topology: &Topology,
        gpu: GpuId,
        source: Source,
        bytes: u64,
    ) {
        self.advance(now_us);
        let (link, bytes_per_s) = match source {
            Source::Host => {
                let switch = topology.gpu(gpu).map_or(0, |entry| entry.switch);
                (Link::Host(switch), topology.host_bytes_per_s)
            }
            Source::Gpu(from) => {
                let speed = topology.peers.get(&(from, gpu)).copied();
                (Link::Peer(from, gpu), speed.unwrap_or(1))
            }
        };
        self.transfers.push(Transfer {
            gpu,
            link,
            bytes_per_s,
            rest: u128::from(bytes) * 1_000_000,
        });
    }

    /// Time of the next end of a transfer.
    pub(super) fn next_end_us(&self) -> Option<u64> {
        let all = self.transfers.iter();
        let ends = all.map(|transfer| transfer.rest.div_ceil(self.share(transfer)));
        let wait = ends.min()?;
        Some(
            self.at_us
                .saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)),
        )
    }

    /// Moves all transfers on to `now_us`, and returns the GPUs whose transfers have ended.
    pub(super) fn ended(&mut self, now_us: u64) -> Vec<GpuId> {
        self.advance(now_us);
        let ended = self.transfers.iter().filter(|transfer| transfer.rest == 0);
        let gpus = ended.map(|transfer| transfer.gpu).collect();
        self.transfers.retain(|transfer| transfer.rest > 0);
        gpus
    }

    fn share(&self, of: &Transfer) -> u128 {
        let beside = self
            .transfers
            .iter()
            .filter(|transfer| transfer.link == of.link);
        (u128::from(of.bytes_per_s) / beside.count().max(1) as u128).max(1)
    }

    fn advance(&mut self, now_us: u64) {
        let passed = u128::from(now_us.saturating_sub(self.at_us));
        let shares: Vec<u128> = self
            .transfers
            .iter()
            .map(|transfer| self.share(transfer))
            .collect();
        for (one, share) in self.transfers.iter_mut().zip(shares) {
            one.rest = one.rest.saturating_sub(share * passed);
        }
        self.at_us = self.at_us.max(now_us);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tetris_scaler_dispatch::gpu::Gpu;

    use super::*;

    fn pair() -> Topology {
        let gpu = Gpu {
            memory_bytes: 1,
            node: 0,
            switch: 0,
        };
        Topology {
            gpus: vec![gpu, gpu],
            host_bytes_per_s: 1_000_000,
            peers: BTreeMap::from([((GpuId(0), GpuId(1)), 10_000_000)]),
        }
    }

    #[test]
    fn neighbors_have_half_of_the_bandwidth_while_both_load() {
        let mut links = Links::default();
        links.start(0, &pair(), GpuId(0), Source::Host, 100);
        assert_eq!(links.next_end_us(), Some(100));
        links.start(50, &pair(), GpuId(1), Source::Host, 100);
        assert_eq!(links.next_end_us(), Some(150));
        assert_eq!(links.ended(150), [GpuId(0)]);
        assert_eq!(links.next_end_us(), Some(200));
        assert_eq!(links.ended(200), [GpuId(1)]);
    }

    #[test]
    fn a_copy_from_a_gpu_leaves_the_switch_alone() {
        let mut links = Links::default();
        links.start(0, &pair(), GpuId(0), Source::Host, 100);
        links.start(0, &pair(), GpuId(1), Source::Gpu(GpuId(0)), 100);
        assert_eq!(links.ended(10), [GpuId(1)]);
        assert_eq!(links.next_end_us(), Some(100));
    }
}
