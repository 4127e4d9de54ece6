//! Objects that another device copies from.

use tetris_store_layout::ObjectId;

use super::{DeviceId, Freed, Manager, TenantId};
use crate::arena::ObjectPlace;

impl Manager {
    /// Keeps a copied object in its place until [`Self::unpin`], however often it is called. Returns
    /// the place; `None` if the object is not there, or not yet.
    pub fn pin(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
    ) -> Option<ObjectPlace> {
        let place = self.ready_place(device, tenant, object)?;
        let device = self.device_of_mut(device)?;
        device.objects.get_mut(&(tenant, *object))?.pins += 1;
        Some(place)
    }

    /// Ends one [`Self::pin`]. Returns false if the object has left in the meantime, as damaged
    /// objects do: then the bytes read there may be others. An object that belongs to no
    /// model any more leaves now.
    pub fn unpin(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
        freed: &mut Freed,
    ) -> bool {
        let Some(device) = self.device_of_mut(device) else {
            return false;
        };
        let found = device.objects.get_mut(&(tenant, *object));
        let Some(found) = found.filter(|found| found.pins > 0) else {
            return false;
        };
        found.pins -= 1;
        if found.models.is_empty() && found.is_idle() {
            device.remove(tenant, object, freed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::{ClientId, Config, ModelSpec, Part};

    const MIB: u64 = 1 << 20;
    const TENANT: TenantId = TenantId(0);
    const DEVICE: DeviceId = DeviceId(0);

    fn model(name: &str) -> (ModelSpec, ObjectId) {
        let object = ObjectId::of(name.as_bytes());
        let part = Part {
            object,
            len: 300 * MIB,
        };
        (ModelSpec::try_new(&[part], &[]).unwrap(), object)
    }

    /// A device with one idle model, which fills more than half of it.
    fn with_idle(name: &str) -> (Manager, ObjectId) {
        let mut manager = Manager::new(Config::default());
        manager.set_capacity(DEVICE, 500 * MIB);
        let (spec, object) = model(name);
        let client = ClientId(1);
        manager.admit(TENANT, client, &spec, None, 1).unwrap();
        assert_eq!(manager.pin(DEVICE, TENANT, &object), None, "on its way");
        manager.copied(DEVICE, TENANT, &object).unwrap();
        manager.disconnect(client, 2);
        (manager, object)
    }

    #[test]
    fn a_pinned_object_is_not_evicted() {
        let (mut manager, object) = with_idle("a");
        for _ in 0..2 {
            assert!(manager.pin(DEVICE, TENANT, &object).is_some());
        }
        let (next, _) = model("b");
        let mut freed = Freed::default();
        for left in [2, 1] {
            let refused = manager.admit(TENANT, ClientId(2), &next, None, 3);
            assert!(refused.unwrap_err().may_wait(), "{left} pins");
            assert!(manager.unpin(DEVICE, TENANT, &object, &mut freed));
        }
        let admission = manager.admit(TENANT, ClientId(2), &next, None, 4).unwrap();
        assert_eq!(admission.freed.evicted.len(), 1);
        assert!(
            !manager.unpin(DEVICE, TENANT, &object, &mut freed),
            "it has left"
        );
        assert_eq!(freed, Freed::default());
    }

    #[test]
    fn who_pinned_a_damaged_object_is_told() {
        let (mut manager, object) = with_idle("a");
        manager.pin(DEVICE, TENANT, &object).unwrap();
        manager.damaged(DEVICE, TENANT, object, 3);
        // The same object comes back, at the same place.
        let (spec, _) = model("a");
        manager.admit(TENANT, ClientId(2), &spec, None, 4).unwrap();
        manager.copied(DEVICE, TENANT, &object).unwrap();
        let mut freed = Freed::default();
        assert!(!manager.unpin(DEVICE, TENANT, &object, &mut freed));
    }
}
