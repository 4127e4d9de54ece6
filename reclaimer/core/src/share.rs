//! Shares of the stores on one mount: limits, guarantees, and the room that is kept back for them.
//!
//! A pod maps objects of its store without asking, so all that a store has may become mapped at any
//! moment. Only free room is safe. So the unused part of each guarantee stays free, as do the
//! guarantees of namespaces that may still arrive: a store beyond its guarantee gets no room below
//! that, and within its guarantee needs nothing but free room.

use crate::config::{Policy, StorePolicy};
use crate::snapshot::{MountSnapshot, StoreSnapshot};
use crate::space::{Space, part_of, scaled};

/// Limit of a namespace's own store by default, in percent of its mount.
pub const NAMESPACE_LIMIT_PERCENT: u32 = 60;
/// Guarantee of a namespace's own store by default, in percent of its mount,
pub const NAMESPACE_GUARANTEED_PERCENT: u32 = 5;
/// and at least this many bytes, if that is no more than a sixteenth of the mount.
pub const LEAST_NAMESPACE_GUARANTEED_BYTES: u64 = 256 << 20;
/// Most of a mount that all guarantees of namespaces take together, in percent. With more
/// namespaces than that, each guarantee is smaller.
const GUARANTEED_PERCENT_OF_ALL: u32 = 80;

/// Share of one store in its mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The most that the store may have; `u64::MAX` without a limit.
    pub limit: Space,
    /// Guarantee: the store can have this at any time, and other stores cannot take it.
    pub guaranteed: Space,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            limit: Space::ENDLESS,
            guaranteed: Space::default(),
        }
    }
}

/// Use of a mount by one store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreDemand {
    /// Space that it has.
    pub used: Space,
    /// Space that its waiting loads need beyond that.
    pub asked: Space,
}

/// Room missing for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingRoom {
    /// The part beyond the store's limit.
    pub within_limit: Space,
    /// The part that is not free.
    pub on_mount: Space,
    /// The part that is not free, or kept back for the guarantees of others.
    pub kept: Space,
}

impl MissingRoom {
    /// All that is missing.
    pub fn all(self) -> Space {
        self.within_limit.max(self.on_mount).max(self.kept)
    }
}

impl StorePolicy {
    /// Share of a store with this policy in a mount with `capacity`, where 0 inodes mean no limit of
    /// them. `own_of_namespace`: true for a namespace's own store, whose limits have defaults.
    pub fn share(&self, own_of_namespace: bool, capacity: Space) -> Share {
        let default = |percent| own_of_namespace.then_some(percent);
        let percent = self.limit_percent;
        let bytes_percent = match self.limit_bytes {
            Some(_) => None,
            None => percent.or(default(NAMESPACE_LIMIT_PERCENT)),
        };
        let part = |percent: Option<u32>, whole| percent.map(|part| part_of(whole, part));
        let limit_bytes = self.limit_bytes.or(part(bytes_percent, capacity.bytes));
        let inodes_percent = percent.or(default(NAMESPACE_LIMIT_PERCENT));
        let inodes_percent = inodes_percent.filter(|_| capacity.inodes > 0);
        let limit_inodes = self.limit_inodes.or(part(inodes_percent, capacity.inodes));
        let limit = Space {
            bytes: limit_bytes.unwrap_or(u64::MAX),
            inodes: limit_inodes.unwrap_or(u64::MAX),
        };
        let bytes = match (self.guaranteed_bytes, self.guaranteed_percent) {
            (0, Some(percent)) => part_of(capacity.bytes, percent),
            (0, None) if own_of_namespace => {
                let floor = LEAST_NAMESPACE_GUARANTEED_BYTES.min(capacity.bytes / 16);
                part_of(capacity.bytes, NAMESPACE_GUARANTEED_PERCENT).max(floor)
            }
            (bytes, _) => bytes,
        };
        let bytes = bytes.min(limit.bytes);
        let inodes = scaled(capacity.inodes, bytes, capacity.bytes);
        Share {
            limit,
            guaranteed: Space { bytes, inodes }.min(limit),
        }
    }
}

/// Shares of all stores on a mount, and of the namespaces that may arrive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountShares {
    stores: Vec<Share>,
    arrivals: Space,
}

impl MountShares {
    /// Shares of `stores`, which are on `mount`, in their order.
    pub fn new<'a>(
        policy: &Policy,
        mount: &MountSnapshot,
        stores: impl IntoIterator<Item = &'a StoreSnapshot>,
    ) -> Self {
        let capacity = mount.capacity();
        let (mut shares, mut own) = (Vec::new(), Vec::new());
        for store in stores {
            let is_own = store.namespace.is_some();
            let policy = policy.of_owned(&store.name, store.namespace.as_deref());
            shares.push(policy.share(is_own, capacity));
            own.push(is_own);
        }
        let guaranteed = policy.config().store.share(true, capacity).guaranteed;
        let count = u64::from(mount.arrivals);
        let mut all = Self {
            stores: shares,
            arrivals: Space {
                bytes: guaranteed.bytes.saturating_mul(count),
                inodes: guaranteed.inodes.saturating_mul(count),
            },
        };
        all.fit(&own, capacity);
        all
    }

    /// Makes the guarantees of namespaces smaller where all of them together are too much.
    fn fit(&mut self, own: &[bool], capacity: Space) {
        let (mut fixed, mut whole) = (Space::default(), self.arrivals);
        for (share, own) in self.stores.iter().zip(own) {
            let sum = if *own { &mut whole } else { &mut fixed };
            *sum = sum.plus(share.guaranteed);
        }
        let most = Space {
            bytes: part_of(capacity.bytes, GUARANTEED_PERCENT_OF_ALL),
            inodes: part_of(capacity.inodes, GUARANTEED_PERCENT_OF_ALL),
        };
        let most = most.beyond(fixed);
        if whole.bytes <= most.bytes && whole.inodes <= most.inodes {
            return;
        }
        let fitted = |part: Space| Space {
            bytes: scaled(part.bytes, most.bytes.min(whole.bytes), whole.bytes),
            inodes: scaled(part.inodes, most.inodes.min(whole.inodes), whole.inodes),
        };
        self.arrivals = fitted(self.arrivals);
        for (share, _) in self.stores.iter_mut().zip(own).filter(|(_, own)| **own) {
            share.guaranteed = fitted(share.guaranteed);
        }
    }

    /// Share of the store at this place.
    pub fn of(&self, store: usize) -> Share {
        self.stores.get(store).copied().unwrap_or_default()
    }

    /// Room that must stay free when all that is asked for in `demands` is there; the demands are in
    /// the order of the stores. None is kept from stores that stay within their guarantees.
    pub fn kept(&self, demands: impl IntoIterator<Item = StoreDemand>) -> Space {
        let (mut kept, mut bytes_beyond, mut inodes_beyond) = (self.arrivals, false, false);
        for (share, demand) in self.stores.iter().zip(demands) {
            let then = demand.used.plus(demand.asked);
            kept = kept.plus(share.guaranteed.beyond(then));
            bytes_beyond |= demand.asked.bytes > 0 && then.bytes > share.guaranteed.bytes;
            inodes_beyond |= demand.asked.inodes > 0 && then.inodes > share.guaranteed.inodes;
        }
        Space {
            bytes: if bytes_beyond { kept.bytes } else { 0 },
            inodes: if inodes_beyond { kept.inodes } else { 0 },
        }
    }

    /// Room missing for the store at the place `store` to get `asked`, while the stores have
    /// `used`, in their order, and `free` is free on the mount.
    pub fn missing(&self, store: usize, used: &[Space], asked: Space, free: Space) -> MissingRoom {
        let in_store = used.get(store).copied().unwrap_or_default();
        let demands = used.iter().enumerate().map(|(at, used)| StoreDemand {
            used: *used,
            asked: if at == store { asked } else { Space::default() },
        });
        MissingRoom {
            within_limit: in_store.plus(asked).beyond(self.of(store).limit),
            on_mount: asked.beyond(free),
            kept: self.kept(demands).plus(asked).beyond(free),
        }
    }

    /// Room that the guarantees still need beyond `used`, which is in the order of the stores.
    pub fn unused(&self, used: impl IntoIterator<Item = Space>) -> Space {
        let unused = self.stores.iter().zip(used);
        let unused = unused.map(|(share, used)| share.guaranteed.beyond(used));
        unused.fold(self.arrivals, Space::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const NODE: Space = Space {
        bytes: 100 * GIB,
        inodes: 100_000,
    };

    fn of_namespace(number: usize) -> StoreSnapshot {
        StoreSnapshot {
            name: number.to_string(),
            namespace: Some(number.to_string()),
            ..StoreSnapshot::default()
        }
    }

    fn mount(arrivals: u32) -> MountSnapshot {
        MountSnapshot {
            capacity_bytes: NODE.bytes,
            free_bytes: NODE.bytes,
            inodes: NODE.inodes,
            free_inodes: NODE.inodes,
            arrivals,
            ..MountSnapshot::default()
        }
    }

    #[test]
    fn only_a_namespaces_own_store_has_limits_by_default() {
        let policy = StorePolicy::default();
        assert_eq!(policy.share(false, NODE), Share::default());
        let share = policy.share(true, NODE);
        let space = |bytes, inodes| Space { bytes, inodes };
        assert_eq!(share.limit, space(60 * GIB, 60_000));
        assert_eq!(share.guaranteed, space(5 * GIB, 5_000));
        // A mount without a limit of inodes has nothing to share of them.
        let share = policy.share(true, Space::of_bytes(NODE.bytes));
        assert_eq!(share.limit, space(60 * GIB, u64::MAX));
        assert_eq!(share.guaranteed, space(5 * GIB, 0));
        // On a small node the floor counts, and never takes more than a sixteenth.
        let small = policy.share(true, Space::of_bytes(4 * GIB));
        assert_eq!(small.guaranteed.bytes, LEAST_NAMESPACE_GUARANTEED_BYTES);
        let tiny = policy.share(true, Space::of_bytes(64 << 20));
        assert_eq!(tiny.guaranteed.bytes, 4 << 20);
    }

    #[test]
    fn what_is_configured_goes_before_the_defaults() {
        let policy = StorePolicy {
            limit_bytes: Some(10 * GIB),
            limit_inodes: Some(70),
            guaranteed_bytes: 20 * GIB,
            ..StorePolicy::default()
        };
        for own in [false, true] {
            let share = policy.share(own, NODE);
            assert_eq!((share.limit.bytes, share.limit.inodes), (10 * GIB, 70));
            // A guarantee beyond the limit is worth the limit.
            assert_eq!(share.guaranteed.bytes, 10 * GIB);
            assert_eq!(share.guaranteed.inodes, 70);
        }
        let percent = StorePolicy {
            limit_percent: Some(100),
            guaranteed_percent: Some(0),
            ..StorePolicy::default()
        };
        let share = percent.share(true, NODE);
        assert_eq!((share.limit, share.guaranteed), (NODE, Space::default()));
    }

    #[test]
    fn room_is_kept_from_stores_beyond_their_guarantee_and_from_no_others() {
        let stores = [of_namespace(0), of_namespace(1)];
        let shares = MountShares::new(&Policy::default(), &mount(3), &stores);
        let kept = |asked: [u64; 2]| {
            let demands = asked.map(|gib| StoreDemand {
                used: Space::of_bytes(2 * GIB),
                asked: Space::of_bytes(gib * GIB),
            });
            shares.kept(demands).bytes / GIB
        };
        assert_eq!(kept([3, 0]), 0);
        // Three arrivals, and 3 GiB of the other that it may still claim.
        assert_eq!(kept([4, 0]), 18);
        assert_eq!(kept([4, 3]), 15);
        let used = Space::of_bytes(2 * GIB);
        assert_eq!(shares.unused([used, used]).bytes, 21 * GIB);
    }

    #[test]
    fn many_namespaces_have_smaller_guarantees_of_which_all_fit() {
        for count in [1, 8, 16, 17, 64, 1000] {
            let stores: Vec<_> = (0..count).map(of_namespace).collect();
            let shares = MountShares::new(&Policy::default(), &mount(1), &stores);
            let nothing = stores.iter().map(|_| Space::default());
            let all = shares.unused(nothing);
            assert!(all.bytes <= part_of(NODE.bytes, 80), "{count}: {all:?}");
            assert!(all.inodes <= part_of(NODE.inodes, 80), "{count}: {all:?}");
            assert!(shares.of(0).guaranteed.bytes > 0, "{count}");
        }
    }
}
