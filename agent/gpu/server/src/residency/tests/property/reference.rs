//! The reference, and the invariants that hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use tetris_store_layout::ObjectId;

use super::{CAPACITY, LIGHT, QUOTA, config};
use crate::arena::{ChunkId, ObjectPlace};
use crate::residency::{
    Admission, ClientId, DeviceId, Freed, Manager, ModelKey, ModelSpec, TenantId,
};

pub type Held = (DeviceId, TenantId, ModelKey);

/// Number of holds, and the positions of the objects.
type Holding = (u64, Vec<(ObjectId, ObjectPlace)>);

/// The state that follows from the manager's answers alone.
#[derive(Default)]
pub struct Reference {
    /// Chunks that the manager created and has not released.
    pub chunks: BTreeMap<(DeviceId, TenantId, ChunkId), u64>,
    /// Positions of each model's objects, as its holders know them.
    pub held: BTreeMap<(ClientId, Held), Holding>,
    pub copying: BTreeSet<(DeviceId, TenantId, ObjectId)>,
    pub last_used: BTreeMap<Held, u64>,
    pub bytes: BTreeMap<ModelKey, u64>,
}

impl Reference {
    pub fn freed(&mut self, device: DeviceId, freed: &Freed) {
        for chunk in &freed.released {
            let name = (device, chunk.tenant, chunk.chunk);
            assert!(
                self.chunks.remove(&name).is_some(),
                "{name:?} released twice"
            );
        }
        for victim in &freed.evicted {
            let is_victim =
                |(_, model): &&(ClientId, Held)| *model == (device, victim.tenant, victim.model);
            assert!(!self.held.keys().any(|entry| is_victim(&entry)), "B1");
        }
        // B5, for each tenant: a quota can make one tenant's models leave before another's.
        for tenant in [TenantId(0), TenantId(1)] {
            let victims = freed
                .evicted
                .iter()
                .filter(|victim| victim.tenant == tenant);
            let ranks = victims.map(|victim| {
                let used = self.last_used[&(device, victim.tenant, victim.model)];
                (self.bytes[&victim.model] > LIGHT, used)
            });
            assert!(ranks.is_sorted(), "B5");
        }
    }

    pub fn admitted(
        &mut self,
        tenant: TenantId,
        client: ClientId,
        spec: &ModelSpec,
        admission: &Admission,
        now: u64,
    ) {
        let device = admission.device;
        self.freed(device, &admission.freed);
        for new in &admission.created {
            assert_eq!(
                self.chunks.insert((device, tenant, new.id), new.bytes),
                None
            );
        }
        let objects: Vec<_> = admission.places.iter().map(|(object, _)| *object).collect();
        let wanted: Vec<_> = spec.parts().iter().map(|part| part.object).collect();
        assert_eq!(objects, wanted, "in the order in which they are wanted");
        for object in &admission.awaited {
            assert!(self.copying.contains(&(device, tenant, *object)));
        }
        for copy in &admission.copies {
            assert!(
                self.copying.insert((device, tenant, copy.object)),
                "copied twice"
            );
        }
        let model = (device, tenant, spec.key());
        self.last_used.insert(model, now);
        self.bytes.insert(spec.key(), spec.bytes());
        let entry = self
            .held
            .entry((client, model))
            .or_insert((0, admission.places.clone()));
        entry.0 += 1;
        assert_eq!(entry.1, admission.places, "B1: a held model does not move");
    }

    pub fn let_go(&mut self, client: ClientId, model: Held, now: u64, all: bool) {
        if let Some(entry) = self.held.get_mut(&(client, model)) {
            entry.0 -= 1;
            if all || entry.0 == 0 {
                self.held.remove(&(client, model));
            }
            self.last_used.insert(model, now);
        }
    }

    pub fn agrees(&self, manager: &Manager) {
        for device in [DeviceId(0), DeviceId(1)] {
            let chunks = self.chunks.iter().filter(|((on, ..), _)| *on == device);
            let bytes: u64 = chunks.map(|(_, bytes)| bytes).sum();
            assert_eq!(manager.usage(device).unwrap().created_bytes, bytes);
            assert!(bytes <= CAPACITY, "B4");
            let of_tenant = self
                .chunks
                .iter()
                .filter(|((on, tenant, _), _)| (*on, *tenant) == (device, TenantId(1)));
            assert!(
                of_tenant.map(|(_, bytes)| bytes).sum::<u64>() <= QUOTA,
                "B4"
            );
        }
        self.places_are_whole();
        for device in [DeviceId(0), DeviceId(1)] {
            wastes_little(manager, device);
        }
    }

    /// Every held object lies in an existing chunk, in one position, and overlaps no other (B1,
    /// B3).
    fn places_are_whole(&self) {
        let mut all: BTreeMap<(DeviceId, TenantId, ObjectId), ObjectPlace> = BTreeMap::new();
        for ((_, (device, tenant, _)), (_, places)) in &self.held {
            for (object, place) in places {
                let chunk = self.chunks.get(&(*device, *tenant, place.chunk));
                assert!(
                    chunk.is_some_and(|bytes| place.offset + place.len <= *bytes),
                    "B1"
                );
                let before = all.insert((*device, *tenant, *object), *place);
                assert!(before.is_none_or(|before| before == *place), "B3");
            }
        }
        let mut by_place: Vec<_> = all
            .iter()
            .map(|((device, tenant, _), place)| (device, tenant, place))
            .collect();
        by_place.sort();
        for pair in by_place.windows(2) {
            let [(device, tenant, first), (next_device, next_tenant, second)] = pair else {
                continue;
            };
            let same = (device, tenant, first.chunk) == (next_device, next_tenant, second.chunk);
            assert!(
                !same || first.offset + first.len <= second.offset,
                "overlap"
            );
        }
    }
}

/// Checks B6 against the manager's own state.
fn wastes_little(manager: &Manager, device: DeviceId) {
    let device = manager.device(device);
    for (tenant, arena) in &device.arenas {
        let idle = |object: ObjectId| device.objects[&(*tenant, object)].is_idle();
        let chunks = arena
            .chunks()
            .filter(|(id, ..)| arena.objects_in(*id).all(idle));
        let (bytes, live) = chunks.fold((0, 0), |sum, (_, bytes, live)| {
            (sum.0 + bytes, sum.1 + live)
        });
        assert!(bytes - live <= config().arena.waste_limit(live), "B6");
    }
}
