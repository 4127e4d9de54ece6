//! Shares of the stores in their mounts, and the room that was granted and is not filled yet.

use tetris_reclaimer_core::{MountShares, Share, Space};

use super::Reclaimer;
use super::observation::Observation;
use super::tenant::Tenant;
use crate::room::GrantedRoom;

/// The stores on one mount: their shares, and what they have.
pub(super) struct SharedMount {
    /// Places of the stores among all, in the order of `shares`.
    stores: Vec<usize>,
    shares: MountShares,
}

impl SharedMount {
    /// Place of a store in the order of the shares.
    pub(super) fn place(&self, store: usize) -> usize {
        let place = self.stores.iter().position(|other| *other == store);
        place.unwrap_or(usize::MAX)
    }

    pub(super) fn shares(&self) -> &MountShares {
        &self.shares
    }
}

impl Reclaimer {
    /// Uses `granted`: room that it names counts as taken.
    #[must_use]
    pub fn with_granted(mut self, granted: Option<impl GrantedRoom + 'static>) -> Self {
        self.granted = granted.map(|granted| Box::new(granted) as _);
        self
    }

    /// The stores on the mount at this place.
    pub(super) fn shared_mount(&self, mount: usize, seen: &Observation) -> SharedMount {
        let all = seen.snapshot.stores.iter().enumerate();
        let (stores, on_it): (Vec<_>, Vec<_>) =
            all.filter(|(_, store)| store.mount == mount).unzip();
        let room = seen.snapshot.mounts.get(mount).copied();
        SharedMount {
            shares: MountShares::new(&self.config.policy, &room.unwrap_or_default(), on_it),
            stores,
        }
    }

    /// Share of each store, in the order of the tenants.
    pub(super) fn shares(&self, seen: &Observation) -> Vec<Share> {
        let mounts = 0..seen.snapshot.mounts.len();
        let mounts: Vec<_> = mounts.map(|mount| self.shared_mount(mount, seen)).collect();
        let stores = seen.snapshot.stores.iter().enumerate();
        let share = |(at, mount): (usize, usize)| {
            let mount = mounts.get(mount)?;
            Some(mount.shares.of(mount.place(at)))
        };
        stores
            .map(|(at, store)| share((at, store.mount)).unwrap_or_default())
            .collect()
    }

    /// Space that each store on a mount has now: objects that this pass freed are out of the catalogs.
    pub(super) fn used_on(&self, mount: &SharedMount) -> Vec<Space> {
        let tenants = mount.stores.iter().map(|store| self.tenants.get(*store));
        tenants
            .map(|tenant| tenant.map_or_else(Space::default, Tenant::used))
            .collect()
    }

    /// Room on a mount that loads of other stores than `but` were granted, and have not filled.
    pub(super) fn granted_on(&self, mount: usize, but: &[&str], seen: &Observation) -> Space {
        let Some(granted) = &self.granted else {
            return Space::default();
        };
        let left = granted.left().into_iter();
        let others = left.filter(|(store, _)| {
            let stores = seen.snapshot.stores.iter();
            let mut on_it = stores.filter(|other| other.mount == mount);
            !but.contains(&store.as_str()) && on_it.any(|other| other.name == *store)
        });
        others.fold(Space::default(), |sum, (_, left)| sum.plus(left))
    }
}
